"""The tables of a database that writers' catalogs keep: defined, found, dropped, and changed together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.degraded import warn_degraded
from firn.errors import (
    DatabaseClosedError,
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.model import DataFile
from firn.journal.writer.commit.local_writer import Author, OwnWriter, PendingCommit
from firn.journal.writer.commit.transaction import Gathering
from firn.journal.writer.federation.definition import WriterDefinition, definitions
from firn.journal.writer.federation.federation import Federation, Union, default_name
from firn.journal.writer.format.actions import Action, Define, Drop
from firn.journal.writer.format.layout import check_place
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.journal import WriterJournal
from firn.journal.writer.settings import WriterSettings
from firn.lake.definition.definition import LakeDefinition
from firn.lake.results import AppendResult, ChangeResult, DropReport
from firn.lake.table import LakeTable
from firn.runner import Engines

if TYPE_CHECKING:
    from firn.database.sql_transaction import SqlDatabase
    from firn.sql.result import Result


class WriterTables:
    """Tables with `journal="writer"`. Nothing is read before it is needed."""

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        url: str,
        engines: Engines,
        *,
        writer: str | None,
        strict: bool,
        clock: Clock | None = None,
    ) -> None:
        self._bucket, self._prefix, self._url, self._engines = bucket, prefix, url, engines
        self._clock = clock or SystemClock()
        self.federation = Federation(bucket, prefix, default_name=default_name(url), strict=strict)
        self.writer = writer
        self._own = None
        if writer is not None:
            self._own = OwnWriter(self.federation, check_place(writer, "writer"), self._clock, self._fold)

    @property
    def own(self) -> OwnWriter:
        """The connection's writer; `InvalidInputError` where it has none."""
        if self._own is None:
            raise InvalidInputError(
                f"this connection to {self._url} only reads writers' catalogs. Open the database with "
                "firn.connect(url, writer=ID), from a shell with --writer ID; no other process may use the id."
            )
        return self._own

    def names(self) -> list[str]:
        """The tables of all writers; a warning tells of those that can't be read."""
        union = self.federation.load()
        self._warn(union)
        return list(definitions(union))

    def settings(self) -> dict[str, WriterSettings | None]:
        """The settings of each table, with the greatest times that somebody may still go by; None, with a warning, of
        a table that needs a newer Firn."""
        found: dict[str, WriterSettings | None] = {}
        for name, (definition, _) in definitions(self.federation.load()).items():
            try:
                settings = _settings(_described(definition))
            except UnsupportedError as error:  # of that table alone: the others go on
                warn_degraded(self.federation.bucket.uri(key_below(self.federation.prefix, name)), str(error))
                found[name] = None
                continue
            found[name] = settings.lasting(definition.entries, self._clock.now_ms())
        return found

    def define(self, definition: LakeDefinition) -> LakeTable:
        """Create a table in the own writer's catalog. Every connection knows it from then on.

        Raises:
            TableExistsError: some writer has defined it.
        """
        name = check_place(definition.name, "table")
        own = self.own
        if name in definitions(union := own.load()) or name in union.versions:
            self._exists(name, name in union.versions)
        named = replace(definition, id=secrets.token_hex(16))
        spec = orjson.dumps(named.fields(), option=orjson.OPT_INDENT_2)
        encoded = WriterDefinition(spec, self._clock.now_ms(), own.writer).encode()

        def plan(state: CatalogState, clock: str) -> Sequence[Action]:
            if name in state.tables or name == own.writer:
                self._exists(name, name == own.writer)
            return [Define(name, encoded)]

        own.commit(PendingCommit("create", plan, summary={"table": name}))
        return self._table(WriterDefinition.decode(encoded, name), (), own)

    def check_free(self, name: str) -> None:
        """Refuse the name of a writer, or of a table of one. 1 GET where the database has never had a writer."""
        if not self.federation.is_recorded():
            return
        union = self.federation.load()
        defined = definitions(union)
        if name in union.versions or name in union.broken or name in defined:
            self._exists(name, name not in defined)

    def find(self, name: str) -> LakeTable | None:
        """A table that any writer has defined; with None, a warning tells of those that can't be read. Cost: see
        `Federation.load`."""
        found = definitions(union := self.federation.load()).get(name)
        if found is None:
            self._warn(union)
            return None
        return self._table(*found, self._own)

    def drop(self, name: str, *, dry_run: bool = False) -> DropReport:
        """Drop the own writer's part of a table, by one commit unless the writer has none."""
        own = self.own
        # Before the commit: what fails after it would say that nothing was dropped.
        versions = own.load().versions
        others = tuple(w for w, v in versions.items() if name in v.state.tables and w != own.writer)
        part: list[DataFile] = []

        def plan(state: CatalogState, clock: str) -> Sequence[Action]:
            if name not in state.tables:
                raise _Gone
            part[:] = _files_of(state, name)
            return [Drop(name)]

        if dry_run:
            part = _files_of(own.state, name) if own.writer in self.federation.writers() else []
        else:
            with suppress(_Gone):
                own.commit(PendingCommit("drop", plan, summary={"table": name}))
        size = sum(f.size for f in part)
        return DropReport(tuple(f.path for f in part), size, own.writer, others, dry_run)

    def writer_transaction(self, database: SqlDatabase | None = None) -> WriterTransaction:
        """See `Database.writer_transaction`. `database` is for its SQL."""
        return WriterTransaction(Gathering(self.own), self._in_transaction, database)

    def close(self) -> None:
        """Write rows that stand in the own writer's catalog into files."""
        if self._own is not None:
            self._own.close()

    # -- inside

    def _fold(self) -> None:
        """Write the rows that stand in the own writer's catalog into files, by one commit. Those of tables that a
        thread or a transaction of this process is changing stay. Cost: that of `Federation.load`, 1 PUT a file, and
        the commit."""
        own = self.own
        with ExitStack() as turns:
            waiting = [name for name, table in own.state.tables.items() if table.inlined]
            free = [name for name in waiting if turns.enter_context(own.maintenance(name).if_free())]
            changing = (
                own.changing
            )  # looked at within the turns: else a transaction could have taken its own between
            free = [name for name in free if name not in changing]
            if free:
                gathering = Gathering(own)
                for name in free:
                    self._in_transaction(name, gathering).merge(only="inlined")
                gathering.publish(plain=True)

    def _warn(self, union: Union) -> None:
        for text in union.left_out:
            warn_degraded(self.federation.bucket.uri(self.federation.prefix), text)

    def _in_transaction(self, name: str, gathering: Gathering) -> LakeTable:
        found = definitions(gathering.load()).get(name)
        if found is None:
            raise TableNotFoundError(
                f"there is no table {name!r} of writers' catalogs in {self._url}. A transaction covers tables with "
                'journal="writer"; create the table before you begin it.'
            )
        return self._table(*found, gathering)

    def _table(self, definition: WriterDefinition, notes: Sequence[str], own: Author | None) -> LakeTable:
        lake = _described(definition)
        journal = WriterJournal(
            self.federation,
            own,
            lake.name,
            definition,
            rules=lake.rules,
            settings=_settings(lake),
            clock=self._clock,
            notes=notes,
        )
        prefix = key_below(self._prefix, lake.name)
        return LakeTable(self._bucket, prefix, lake, journal, self._engines)

    def _exists(self, name: str, is_writer: bool) -> None:
        if is_writer:
            raise writer_exists(name, self._url)
        raise TableExistsError(
            f"{self._url} has a table {name!r} already. Open it with db.table({name!r}), or choose another name."
        )


def writer_exists(name: str, url: str) -> TableExistsError:
    return TableExistsError(
        f"{name!r} is a writer of {url}, and tables and writers share one name space. Choose another name."
    )


def _described(definition: WriterDefinition) -> LakeDefinition:
    return LakeDefinition.decode(definition.spec, f"the definition by the writer {definition.writer}")


def _settings(definition: LakeDefinition) -> WriterSettings:
    return WriterSettings.from_properties(definition.properties)


def _files_of(state: CatalogState, name: str) -> list[DataFile]:
    """The data files of a writer's part of a table; none where it has none."""
    table = state.tables.get(name)
    files = [] if table is None else [live.file for live in table.files.values()]
    return [file for file in files if file.inlined is None]


class _Gone(Exception):
    """The writer hasn't got the table, or not any more."""


class WriterTransaction:
    """Changes of several tables that become visible in one revision, or not at all. Made by
    `Database.writer_transaction`.

    Tables read what they were when it began, with what it has changed itself. `version` is that of the commit,
    once the block has ended well; None where nothing was changed.
    """

    def __init__(
        self,
        gathering: Gathering,
        open_table: Callable[[str, Gathering], LakeTable],
        database: SqlDatabase | None = None,
    ) -> None:
        self._gathering, self._open_table, self._database = gathering, open_table, database
        self._tables: dict[str, LakeTable] = {}
        self.version: str | None = None

    def table(self, name: str) -> LakeTable:
        """A table with all its verbs, whose commits wait for the transaction's end."""
        if name not in self._tables:
            self._tables[name] = self._open_table(name, self._gathering)
        return self._tables[name]

    def append(self, table: str, data: Any, *, query: str | None = None) -> AppendResult:
        """See `LakeTable.append`. Files are written at once; rows become visible at the end."""
        return self.table(table).append(data, query=query)

    def delete(self, table: str, where: str, *, soft: bool | None = None) -> ChangeResult:
        """See `LakeTable.delete`; rows that the transaction appended are deleted too."""
        return self.table(table).delete(where, soft=soft)

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run one query or statement in the transaction, in this process, as `Database.sql` does: it sees the tables
        of writers' catalogs as the transaction does, and others as they are now.

        Raises:
            UnsupportedError: a statement that changes other tables, or definitions.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> _ = db.create_table("cpu", journal="writer", schema={"load": "DOUBLE"})
            >>> with db.writer_transaction() as tx:
            ...     _ = tx.sql("INSERT INTO cpu VALUES (0.5), (0.75)")
            ...     print(tx.sql("UPDATE cpu SET load = 1 WHERE load > 0.6").outcome.rows_updated)
            1
            >>> sorted(row["load"] for row in db.sql("FROM cpu"))
            [0.5, 1.0]
        """
        from firn.sql.blocks import WriterBlockTables
        from firn.sql.result import Result
        from firn.sql.run import Statements

        if self._database is None:
            raise UnsupportedError("this transaction belongs to no database, and takes no SQL.")
        statements = Statements(
            WriterBlockTables(self._database, self.table),
            tables,
            limits=self._database.engines.limits,
            because="a transaction runs in this process",
        )
        engines = self._database.engines
        return Result(statements.run(query, parameters), engines.session, engines.must_be_open)

    def __enter__(self) -> WriterTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._gathering.abandon()
            return
        if self._database is not None and self._database.engines.closed:
            self._gathering.abandon()
            raise DatabaseClosedError(
                "the transaction's connection was closed, and nothing is committed: connect again."
            )
        head = self._gathering.publish()
        self.version = None if head is None else f"{self._gathering.writer}={head.revision}"
