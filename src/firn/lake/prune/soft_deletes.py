"""Soft deletes: predicates on data files, whose rows don't exist where one of them is true.

Here their texts are made and read; `firn.lake.read.decode` is where they meet rows, and `firn.spark.lake.scan`
where they meet Spark's. A row for which a predicate is null stays, and so does one on which it fails (a text that is
no number under a cast): nothing was read when it was accepted, and a file mustn't become unreadable by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from firn.arrow.types import arrow_type, duckdb_name
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.column_entries import NULLS
from firn.journal.model import ColumnTypes, Reads
from firn.journal.typenames import Decimal, Scalar, canonical
from firn.journal.typenames import parse as parse_type
from firn.names import fold
from firn.predicate.dialect import parse, readable_depth, to_duckdb
from firn.predicate.predicate import Predicate, columns_in, is_opaque
from firn.predicate.trees import exp


def frozen(
    predicate: Predicate,
    columns: ColumnTypes,
    reads: Reads | None = None,
    defaults: Mapping[str, str] | None = None,
) -> str:
    """The text under which a predicate is kept for files that are read by `reads`: over their own columns, each cast
    to the type that the table's column has today, with the default of one that they lack.

    The values of the files that exist are all of this type, so the casts lose nothing; and the predicate goes on
    meaning the same when the table's columns widen later. (0.1 as FLOAT isn't 0.1 as DOUBLE: rows would come
    back.) Nested columns are taken as they will be.

    >>> columns = {"x": "FLOAT", "s": "VARCHAR"}
    >>> print(frozen(Predicate.parse("x = 0.1 and s <> ''", columns), columns))
    CAST("x" AS REAL) = 0.1 AND "s" <> ''
    >>> frozen(Predicate.parse("x = 1", columns), columns, {"x": ("y", "z")}), frozen(
    ...     Predicate.parse("s = ''", columns), columns, {"s": ()})
    ('COALESCE(CAST("y" AS REAL), CAST("z" AS REAL)) = 1', "NULL = ''")
    """

    def cast(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        own = (reads or {}).get(node.parts[0].name)
        if own is None:
            return typed(node)
        if NULLS in own:
            return exp.null()
        parts = [typed(named(node, name), read=True) for name in own]
        if not parts:
            return lacking(node.parts[0].name)
        if len(parts) < 2:
            return parts[0]
        return exp.Coalesce(this=parts[0], expressions=parts[1:])

    def lacking(name: str) -> exp.Expression:
        if defaults is None or name not in defaults:
            return exp.null()
        return exp.Cast(
            this=exp.Literal.string(defaults[name]), to=exp.DataType.build(columns[name], dialect="duckdb")
        )

    def named(node: exp.Column, name: str) -> exp.Column:
        copy = node.copy()
        copy.parts[0].replace(exp.to_identifier(name, quoted=True))
        return copy

    def typed(node: exp.Column, *, read: bool = False) -> exp.Expression:
        kind = None
        if len(node.parts) == 1:
            kind = _seen(shown[node.parts[0].name])
        if kind is None or (kind == "VARCHAR" and not read):
            return node  # nothing is wider than VARCHAR
        return exp.Cast(this=node.copy(), to=exp.DataType.build(kind, dialect="duckdb"))

    shown = dict(columns)
    for place, names in (reads or {}).items():
        shown.update({name: columns[place] for name in names if place in columns})

    return to_duckdb(predicate.ast.copy().transform(cast))


def can_be_kept(predicate: Predicate) -> bool:
    """Whether a predicate may be a soft delete. ANY and ALL of a list may not: DuckDB makes subqueries of them, which
    can fail on a row and not stand in a TRY.

    >>> [can_be_kept(Predicate.parse(text, {"x": "BIGINT"})) for text in ("x IN [1]", "x = ANY([1])", "x < ALL([1])")]
    [True, False, False]
    """
    found = predicate.ast.find_all(exp.Any, exp.All, exp.Anonymous)
    return all(isinstance(node, exp.Anonymous) and node.name.upper() not in _QUANTIFIERS for node in found)


_QUANTIFIERS = ("ANY", "SOME", "ALL")


def lives(predicate: Predicate) -> str:
    """The condition for the rows that a soft delete leaves; of one that older Firns have kept with ANY or ALL, too.

    >>> print(lives(Predicate.parse("x = 5", {"x": "BIGINT"})))
    TRY("x" = 5) IS NOT TRUE
    """
    return f"{'TRY' if can_be_kept(predicate) else ''}({predicate.sql}) IS NOT TRUE"


def predicates(
    deletes: Sequence[str], columns: ColumnTypes, uri: str, own: Mapping[str, str | None] | None = None
) -> tuple[Predicate, ...]:
    """The soft deletes of a file over the table's columns and types as they are now. A column that the table has
    no more is null, as it is for every reader. `own`: of columns that aren't read by their name, folded → the
    name in `columns` of the file's own, None where it has none.

    Raises:
        CorruptObjectError: a text that is no predicate, or doesn't fit the columns; it names the file at `uri`.
    """
    known, theirs = tuple(columns.items()), tuple((own or {}).items())
    found = []
    for text in deletes:
        try:
            found.append(_read(text, known, theirs))
        except InvalidInputError as error:
            raise CorruptObjectError(
                f"{uri} has a soft delete that can't be evaluated, so nobody knows which of its rows exist: "
                f"{error} Restore an older version of the table."
            ) from error
    return tuple(found)


@lru_cache(maxsize=1024)
def _columns_of(text: str) -> frozenset[str]:
    with readable_depth("soft delete", text):
        return columns_in(text)


def columns_of_deletes(deletes: Sequence[str]) -> frozenset[str]:
    """The file's own columns that its soft deletes name."""
    return frozenset().union(*map(_columns_of, deletes))


def deletes_by_name(deletes: Sequence[str], reads: Reads, columns: ColumnTypes) -> bool:
    """Whether soft deletes on a file that is read by `reads` mean the table's columns of the names that they have.

    >>> [deletes_by_name(["x = 1"], {}, {name: "BIGINT"}) for name in ("X", "y")]
    [True, False]
    """
    if reads:
        return not deletes
    known = {fold(name) for name in columns}
    try:
        return all(fold(name) in known for name in columns_of_deletes(deletes))
    except InvalidInputError:
        return True  # whoever evaluates it says that it can't be


def living(
    where: str | None,
    deletes: Sequence[str],
    columns: ColumnTypes,
    uri: str,
    own: Mapping[str, str | None] | None = None,
) -> str | None:
    """The predicate of those rows of a file for which `where` is true (all, if None) and that exist; None for
    all rows. Raises as `predicates` does.

    >>> print(living("x > 1", ["x = 5"], {"x": "BIGINT"}, "file"))
    (
    x > 1
    ) IS TRUE AND TRY("x" = 5) IS NOT TRUE
    """
    if not deletes:
        return where
    parts = [lives(predicate) for predicate in predicates(deletes, columns, uri, own)]
    if where is not None:
        parts.insert(0, f"(\n{where}\n) IS TRUE")
    return " AND ".join(parts)


def _seen(kind: str) -> str | None:
    """The plain type that DuckDB takes a column's values for in a task, where UUID is text and HUGEINT a decimal;
    None for nested ones."""
    if is_opaque(kind) or not isinstance(parse_type(kind), (Scalar, Decimal)):
        return None
    return duckdb_name(arrow_type(kind))


@lru_cache(maxsize=1024)
def _read(
    text: str, known: tuple[tuple[str, str], ...], own: tuple[tuple[str, str | None], ...]
) -> Predicate:
    columns, theirs = dict(known), dict(own)
    folded = {fold(name): name for name in columns}

    def named(node: exp.Expression) -> exp.Expression:
        """Columns by the names in `columns`, null for those that aren't there."""
        if not isinstance(node, exp.Column):
            return node
        name = fold(node.parts[0].name)
        there = theirs[name] if name in theirs else folded.get(name)
        if there is None:
            return exp.null()
        if name in theirs:
            node.parts[0].replace(exp.to_identifier(there, quoted=True))
        return node

    def settle(node: exp.Expression) -> exp.Expression:
        if type(node) is exp.Cast and isinstance(node.this, exp.Column) and len(node.this.parts) == 1:
            name = folded.get(fold(node.this.name))
            if name is not None and canonical(node.to.sql("duckdb")) == _seen(columns[name]):
                return node.this  # as `frozen` had it, and plain enough to prune by
        return node

    with readable_depth("soft delete", text):
        tree = parse(text, "soft delete", into=exp.Condition)
        return Predicate.parse(to_duckdb(tree.transform(named).transform(settle)), columns)
