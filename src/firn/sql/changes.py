"""Runs statements that change tables, or make and drop them: what `syntax` reads, with queries of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.errors import InvalidInputError, NotFoundError, TableNotFoundError, UnsupportedError
from firn.journal.columns import is_cast
from firn.journal.typenames import quoted
from firn.kinds import KINDS
from firn.lake.maintain.matching.clauses import MergeClause
from firn.names import fold
from firn.predicate.parameters import with_values
from firn.predicate.select import shown
from firn.predicate.words import outline_of
from firn.reads import plan_read
from firn.sql.conditions import counting
from firn.sql.in_process import DuckQuery
from firn.sql.kinds.kind import SourceRows, StatementTables, Target, sql_kind
from firn.sql.limits import QueryLimits
from firn.sql.outcome import Outcome, told_by
from firn.sql.syntax.statements import (
    AlterTable,
    CallStatement,
    CopyFrom,
    CopyTo,
    CreateTable,
    DropTable,
    Insert,
    Merge,
    Truncate,
)
from firn.sql.syntax.time_travel import Parameters
from firn.sql.tables import opened
from firn.sql.values import inserted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.sql.files.allowed import AllowedFiles


class Changes:
    """Runs statements that change a database. Arguments: see `firn.sql.run.Statements`."""

    def __init__(self, tables: StatementTables, *, fence: bool, limits: QueryLimits) -> None:
        self._tables, self._fence, self._limits = tables, fence, limits

    def run(self, statement: Any, queries: ChangeQueries) -> Outcome:
        """Run a statement at once; `queries` binds its queries."""
        said = queries.said
        if isinstance(statement, CreateTable):
            return self._create(statement, queries)
        if isinstance(statement, DropTable):
            return self._drop(statement)
        if isinstance(statement, AlterTable):
            return self._alter(statement)
        if isinstance(statement, CopyTo):
            return self._written(statement, queries)
        target = self._target(statement.table, queries)
        kind = sql_kind(target.table.kind)
        if isinstance(statement, CopyFrom):
            statement, read = self._copied(statement, target)
            return replace(kind.insert(target, _insertable(target, read, statement), statement), op="copy")
        if isinstance(statement, Insert):
            source = target.source(statement.query) if queries.on_spark else inserted_rows(target, statement)
            rows = _insertable(target, source, statement)
            if statement.overwrite != "no" or statement.replace_where is not None:
                return kind.overwrite(target, rows, statement)
            return kind.insert(target, rows, statement)
        if isinstance(statement, Truncate):
            name, every = statement.table, (MergeClause("matched", "delete"),)
            return kind.change(target, Merge("delete", name, name, None, "", "true", every))
        if isinstance(statement, Merge):
            return kind.change(target, statement)
        return self._call(target.table, statement, said)

    def _copied(self, copy: CopyFrom, target: Target) -> tuple[Insert, SourceRows]:
        """The rows of files, and the INSERT that they are."""
        from firn.sql.copying import FileRows

        by_name = not copy.columns and copy.options.get("header") is not False
        named = [target.column(name) for name in copy.columns] or list(target.places)
        kinds = {name: target.columns[name] for name in named if name in target.columns}
        read = partial(
            FileRows,
            self._files().read(copy.path),
            copy.path,
            copy.options,
            by_name=by_name,
            limits=self._limits,
        )
        rows = read(kinds)
        if sql_kind(target.table.kind).is_whole(target, rows):
            rows = read({name: target.places.get(name, "VARCHAR") for name in named})
        return Insert(copy.table, "", copy.columns, by_name), rows

    def _written(self, copy: CopyTo, queries: ChangeQueries) -> Outcome:
        from firn.sql.copying import write_file

        rows = queries.source(copy.query, None)
        written = write_file(self._files(), copy.path, copy.options, rows.columns, rows.batches, self._limits)
        return Outcome("copy", rows_inserted=written, files_added=1)

    def _files(self) -> AllowedFiles:
        from firn.sql.files.allowed import AllowedFiles

        return AllowedFiles() if self._limits.files is None else self._limits.files()

    def _target(self, name: str, queries: ChangeQueries) -> Target:
        table = opened(self._tables, name)
        self._check_change(table)
        read = plan_read(table, indexed=True)
        loose = sql_kind(table.kind).untyped(read)
        columns = {name: kind for name, kind in read.known.items() if name not in loose}
        return Target(
            self._tables, table, columns, queries, said=queries.said, fence=self._fence, places=read.known
        )

    def _check_change(self, table: Any) -> None:
        """Refuse what the transaction around the statement, if there is one, can't change."""
        check = getattr(self._tables, "check_change", None)
        if check is not None:
            check(table)

    def _create(self, statement: CreateTable, queries: ChangeQueries) -> Outcome:
        said = queries.said
        options = {fold(name): value for name, value in statement.options.items()}
        kind = options.pop("kind", "lake")
        if kind not in KINDS:
            raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, KINDS))}.")
        if unenforced := [name for name in statement.not_null if fold(name) not in map(fold, statement.key)]:
            name = quoted(unenforced[0])
            check = f"ADD CONSTRAINT {quoted(unenforced[0] + '_there')} CHECK ({name} IS NOT NULL)"
            instead = (
                "nobody would enforce it, but for columns of the key. Of a lake table write ALTER TABLE "
                f"{quoted(statement.table)} {check} behind it."
            )
            raise UnsupportedError(f"the statement {shown(said)}: NOT NULL of {unenforced[0]!r}: {instead}")
        query = None
        if statement.query is not None:
            query = queries.source(statement.query, None)
            if statement.columns:
                raise InvalidInputError(
                    f"the statement {shown(said)}: its query says the columns; leave them out."
                )
            statement = CreateTable(**{**vars(statement), "columns": dict(query.columns)})
        words = {name: options.pop(name) for name in list(options) if name in _OPTIONS}
        given = sql_kind(kind).options(statement, words)
        if statement.if_not_exists and self._there(statement.table):
            return Outcome("create_table")
        table = self._tables.create_table(statement.table, kind=kind, properties=options, **given)
        if query is None:
            return Outcome("create_table")
        target = self._target(statement.table, queries)
        target.fence = True
        before = getattr(table, "version", None)
        try:
            done = sql_kind(kind).insert(target, query, Insert(statement.table, statement.query or ""))
        except BaseException:
            if getattr(table, "version", None) == before:
                self._tables.drop_table(statement.table)
            raise
        return Outcome("create_table", done.version, done.rows_inserted, files_added=done.files_added)

    def _drop(self, statement: DropTable) -> Outcome:
        try:
            report = self._tables.drop_table(statement.table)
        except TableNotFoundError:
            if statement.if_exists:
                return Outcome("drop_table")
            raise
        return Outcome("drop_table", files_removed=len(report.objects))

    def _alter(self, statement: AlterTable) -> Outcome:
        if statement.if_exists and not self._there(statement.table):
            return Outcome("alter_table")
        table = opened(self._tables, statement.table)
        if hasattr(self._tables, "check_change"):
            raise UnsupportedError(
                f"a transaction changes rows, no definitions: alter {table.name} after it."
            )
        changes = counting(table, statement)
        if not changes:
            return Outcome("alter_table")
        done = sql_kind(table.kind).alter(table, changes, fence=self._fence)
        return Outcome("alter_table", done.version)

    def _there(self, name: str) -> bool:
        try:
            self._tables.table(name)
        except NotFoundError:
            return False
        return True

    def _call(self, table: Any, call: CallStatement, said: str) -> Outcome:
        if call.verb not in CALLS:
            raise InvalidInputError(
                f"the statement {shown(said)}: there is no procedure {call.verb!r}; there are {', '.join(CALLS)}."
            )
        verbs = {name: verb for name in CALLS if (verb := getattr(table, name, None)) is not None}
        if (copy := getattr(self._tables, "copy", None)) is not None:
            verbs["copy"] = partial(copy, table.name)
        if call.verb not in verbs:
            raise UnsupportedError(
                f"the statement {shown(said)}: {table.name} has no {call.verb} here; it has {', '.join(verbs)}."
            )
        verb = verbs[call.verb]
        _check_arguments(verb, call, said)
        return told_by(call.verb, verb(**call.arguments))


def _check_arguments(verb: Callable[..., Any], call: CallStatement, said: str) -> None:
    """Refuse names that a verb doesn't take, and calls without one that it needs."""
    takes = signature(verb).parameters
    unknown = [name for name in call.arguments if name not in takes]
    missing = [n for n, p in takes.items() if p.default is Parameter.empty and n not in call.arguments]
    if unknown or missing:
        wrong = f"takes no {unknown[0]}" if unknown else f"needs {missing[0]} => …"
        raise InvalidInputError(
            f"the statement {shown(said)}: {call.verb} {wrong}. It takes {', '.join(takes) or 'the table alone'}."
        )


CALLS = (
    "merge",
    "sweep",
    "checkpoint",
    "restore",
    "expire",
    "rewrite",
    "remove_partitions",
    "register",
    "forget_files",
    "compact",
    "copy",
)
"""The verbs of tables that CALL names."""

_OPTIONS = ("version_by", "merge_operator", "ttl", "journal", "indices", "isolation")


class ChangeQueries:
    """Binds the queries of one statement; `parameters` are those that are left for the engine."""

    def __init__(
        self,
        tables: StatementTables,
        given: Mapping[str, pa.Table],
        said: str,
        session: Callable[[], SparkSession] | None,
        limits: QueryLimits,
    ) -> None:
        self._tables, self._rows, self._session, self._limits = tables, given, session, limits
        self.said, self.on_spark = said, session is not None
        self.parameters: Parameters = None

    def on_duckdb(
        self, text: str, versions: Mapping[str, str] | None, given: Mapping[str, pa.Table]
    ) -> DuckQuery:
        rows = {**self._rows, **given}
        return DuckQuery(
            self._tables, text, given=rows, said=self.said, versions=versions, limits=self._limits
        )

    def source(self, text: str, versions: Mapping[str, str] | None) -> SourceRows:
        if hasattr(self._tables, "check_change"):
            versions = None  # a transaction's own writes have no version
        if self._session is None:
            return self.on_duckdb(text, versions, {})
        from firn.sql.on_spark import SparkQuery

        return SparkQuery(
            self._tables, text, self._session(), self.parameters, given=self._rows, versions=versions
        )

    def outline(self) -> str:
        if self._session is None:
            return outline_of(self.said)
        from firn.sql.on_spark import spark_words

        return outline_of(self.said, spark_words(self.said), "`")


def shared_out(text: str, parameters: Any) -> tuple[str, Parameters]:
    """The text with the values of `$name`, which DuckDB's expressions have, and the parameters of Spark's `:name`."""
    if not isinstance(parameters, Mapping):
        raise UnsupportedError(
            f"the statement {shown(text)} has parts in two engines' SQL: give its parameters by name, {{'n': 1}}, "
            "and write $n in conditions and assignments, :n in the query."
        )
    mine = {name: value for name, value in parameters.items() if f"${name}" in text}
    rest = {name: value for name, value in parameters.items() if name not in mine}
    from firn.sql.on_spark import spark_words

    return with_values(text, mine, spark_words(text)) if mine else text, rest or None


def _insertable(target: Target, query: SourceRows, statement: Insert) -> SourceRows:
    """The rows under the table's names and in its types, where appending wouldn't join the two."""
    source = list(query.columns)
    known = target.columns
    if statement.by_name or not (known or statement.columns):
        names = [target.column(name) if known else name for name in source]
    else:
        names = [target.column(name) for name in statement.columns] or list(target.places)
        if len(names) != len(source):
            raise InvalidInputError(
                f"the statement {shown(target.said)}: {len(source)} values for {len(names)} columns of "
                f"{target.table.name}: {', '.join(names)}."
            )
    repeated = {fold(name) for name in names if [fold(n) for n in names].count(fold(name)) > 1}
    if repeated:
        raise InvalidInputError(
            f"the statement {shown(target.said)}: the column {min(repeated)!r} stands twice."
        )

    kinds = {
        name: known[name]
        for name, has in zip(names, query.columns.values(), strict=True)
        if name in known and is_cast(has, known[name])
    }
    return query.named(names, kinds)
