"""Predicates: a SQL boolean expression over a table's columns, parsed and checked once.

`scan(where=)`, `delete`, `rewrite` and row groups all go by one `Predicate`; `Query` is the SELECT that
`append`, `merge` and `rewrite` take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Scalar
from firn.journal.typenames import parse as parse_type
from firn.names import fold
from firn.predicate import binder
from firn.predicate.dialect import function_names, parse, readable_depth, to_duckdb, to_spark, without_values
from firn.predicate.query import Query
from firn.predicate.trees import exp

__all__ = ["Predicate", "Query", "outline", "parse_rewrite", "parse_value"]

# The functions that DuckDB itself marks as other than CONSISTENT, and their SQL names.
_CHANGING_TEXT = """
clock_timestamp current_catalog current_connection_id current_database current_date current_datetime
current_localtime current_localtimestamp current_query current_query_id current_role current_schema
current_schemas current_setting current_time current_timestamp current_timestamp_ltz
current_transaction_id current_user currval error gen_random_uuid get_current_time
get_current_timestamp getenv getvariable in_search_path localtime localtimestamp nextval now rand
randn random session_user setseed setval sleep_ms stats sysdate today transaction_timestamp
txid_current user uuid uuidv4 uuidv7 vector_type write_log
"""
_CHANGING = frozenset(_CHANGING_TEXT.split())


@dataclass(frozen=True)
class Predicate:
    """A boolean SQL expression. Rows for which it is true match; false and null don't.

    `sql` is DuckDB's text, with quoted identifiers; `columns` are the columns it reads, in the table's
    spelling; `ast` is sqlglot's tree, not to be changed. Picklable.
    """

    sql: str
    columns: frozenset[str]
    ast: exp.Expression = field(repr=False, compare=False)

    @staticmethod
    def parse(text: str, columns: ColumnTypes) -> Predicate:
        """Parse and check a predicate in DuckDB's dialect; backticks may stand for double quotes.

        Column names match in any case. The answer must depend on the row alone: a delete or rewrite whose
        tasks disagree about the time would be half one thing and half another, so `now()`, `current_date`,
        `random()` and the like are refused, as are subqueries, aggregates and window functions.

        Args:
            text: the expression, such as ``origin = 'DTW' AND delay > 60``.
            columns: the table's columns and their DuckDB types.

        Raises:
            InvalidInputError: the text doesn't parse, names unknown columns, compares what can't be
                compared, or uses something that isn't allowed here.

        Example:
            >>> columns = {"origin": "VARCHAR", "delay": "BIGINT"}
            >>> p = Predicate.parse("`Origin` <> 'DTW' and delay > 60", columns)
            >>> print(p.sql, sorted(p.columns))
            "origin" <> 'DTW' AND "delay" > 60 ['delay', 'origin']
        """
        with readable_depth("predicate", text):
            tree = parse(text, "predicate", into=exp.Condition)
            _refuse(tree, f"predicate {text!r}")
            used = _resolve(tree, columns, f"predicate {text!r}")
            predicate = Predicate(to_duckdb(tree), frozenset(used), tree)
        kinds = {name: columns[name] for name in sorted(used)}
        if not any(is_opaque(kind) for kind in kinds.values()):
            binder.check(predicate.sql, kinds, source=text)
        return predicate

    @property
    def spark_sql(self) -> str:
        """Spark's text. Raises `UnsupportedError` for what Spark's SQL can't express."""
        return to_spark(self.ast)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.sql, self.columns)

    def conjuncts(self) -> tuple[Predicate, ...]:
        """The predicates that all must be true for this one to be.

        Example:
            >>> [p.sql for p in Predicate.parse("a > 1 AND (b = 2 AND c)", dict(a="INTEGER", b="INTEGER",
            ...                                                                 c="BOOLEAN")).conjuncts()]
            ['"a" > 1', '"b" = 2', '"c"']
        """
        parts = []
        for tree in conjuncts(self.ast):
            copy = tree.copy()
            names = frozenset(column.parts[0].name for column in copy.find_all(exp.Column))
            parts.append(Predicate(to_duckdb(copy), names, copy))
        return tuple(parts)


def parse_value(text: str, columns: ColumnTypes) -> str:
    """An expression over the columns of one row, as DuckDB's text. It may have only what a predicate may
    have.

    >>> parse_value("`Delay` + 1", {"delay": "BIGINT"})
    '"delay" + 1'
    """
    with readable_depth("expression", text):
        tree = parse(text, "expression", into=exp.Condition)
        _refuse(tree, f"expression {text!r}")
        _resolve(tree, columns, f"expression {text!r}")
        return to_duckdb(tree)


def renamed(text: str, name: Callable[[str], str]) -> str:
    """A predicate with other names of its columns.

    >>> print(renamed("delay > 5 AND s.delay = 1", {"delay": "late", "s": "s"}.__getitem__))
    "late" > 5 AND "s"."delay" = 1
    """
    tree = parse(text, "predicate", into=exp.Condition)
    for column in list(tree.find_all(exp.Column)):
        first = column.parts[0]
        first.replace(exp.to_identifier(name(first.name), quoted=True))
    return to_duckdb(tree)


def with_values(text: str, values: Mapping[str, tuple[str, str | None]]) -> str:
    """A predicate with constants in the place of some columns: by name their type and text, None for null.

    >>> print(with_values("a > b AND s.f > 1", {"b": ("BIGINT", "5"), "s": ("STRUCT(f INTEGER)", None)}))
    "a" > CAST('5' AS BIGINT) AND (CAST(NULL AS STRUCT("f" INT)))."f" > 1
    """
    tree = parse(text, "predicate", into=exp.Condition)

    def constant(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or node.parts[0].name not in values:
            return node
        first, *fields = node.parts
        kind, value = values[first.name]
        this = exp.null() if value is None else exp.Literal.string(value)
        whole = exp.Cast(this=this, to=exp.DataType.build(kind, dialect="duckdb"))
        return exp.Dot.build([exp.Paren(this=whole), *fields]) if fields else whole

    return to_duckdb(tree.transform(constant))


def columns_in(text: str) -> frozenset[str]:
    """The names of columns in a predicate, as it has them."""
    tree = parse(text, "predicate", into=exp.Condition)
    return frozenset(column.parts[0].name for column in tree.find_all(exp.Column))


def outline(text: str) -> str:
    """A predicate with `?` for each value, as the table's history has it.

    >>> outline("comment = 'ann@example.com'")
    '"comment" = ?'
    """
    return without_values(parse(text, "predicate", into=exp.Condition))


def _restored(sql: str, columns: frozenset[str]) -> Predicate:
    """From a pickle, which holds the text: a tree of a thousand ORs is too deep for pickling."""
    return Predicate(sql, columns, parse(sql, "predicate", into=exp.Condition))


def parse_rewrite(text: str, columns: ColumnTypes) -> Predicate | Query:
    """Parse the argument of `rewrite`: a predicate of the rows to keep, or a SELECT over `_rows`.

    Example:
        >>> type(parse_rewrite("FROM _rows WHERE a > 1", {"a": "BIGINT"})).__name__
        'Query'
    """
    if Query.looks_like(text):
        return Query.parse(text, "_rows")
    return Predicate.parse(text, columns)


def conjuncts(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The terms that an AND joins, parentheses taken off."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    else:
        yield tree


def _refuse(tree: exp.Expression, source: str) -> None:
    """Raise for what makes an expression more than a function of one row."""
    for node in tree.walk():
        what = None
        names = function_names(node)
        if isinstance(node, (exp.Query, exp.Subquery, exp.Exists)):
            what = "a subquery; select what to compare with first, and write the values"
        elif isinstance(node, (exp.Window, exp.Filter, exp.WithinGroup)):
            what = "a window function; it needs other rows than the one at hand"
        elif isinstance(node, (exp.AggFunc, exp.AnonymousAggFunc)):
            what = f"the aggregate {node.sql('duckdb')}; it needs other rows than the one at hand"
        elif isinstance(node, (exp.Star, exp.Columns)):
            what = "a * or COLUMNS(…); name the columns"
        elif isinstance(node, (exp.Explode, exp.Unnest)):
            what = "a function that makes several rows of one"
        elif isinstance(node, (exp.Alias, exp.Block, exp.Command)):
            what = f"{node.sql('duckdb')!r}, which isn't part of an expression"
        elif names & _CHANGING or (names == {"age"} and len(node.expressions) == 1):
            what = (
                f"{node.sql('duckdb')}, whose value changes from one task to the next; compute it first, and "
                "write the value"
            )
        if what is not None:
            raise InvalidInputError(f"the {source} has {what}.")


def _resolve(tree: exp.Expression, columns: ColumnTypes, source: str) -> set[str]:
    """Give every column its spelling in the table; the columns used."""
    folded: dict[str, list[str]] = {}
    for name in columns:
        folded.setdefault(fold(name), []).append(name)
    used = set()
    for column in tree.find_all(exp.Column):
        first = column.parts[0]  # of a.b.c, where a is a STRUCT, it is a
        found = [first.name] if first.name in columns else folded.get(fold(first.name), [])
        if len(found) != 1:
            problem = (
                f"can mean the columns {' and '.join(map(repr, found))}; write one of them exactly"
                if found
                else "isn't a column (text stands in single quotes); there are: "
                f"{', '.join(columns) or 'none yet'}"
            )
            raise InvalidInputError(f"in the {source}, {first.name!r} {problem}.")
        first.set("this", found[0])
        first.set("quoted", True)
        used.add(found[0])
    return used


_KNOWN_SCALARS_TEXT = """
BIGINT BIT BLOB BOOLEAN DATE DOUBLE FLOAT HUGEINT INTEGER INTERVAL JSON SMALLINT TIME TIMESTAMP
TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT UHUGEINT UINTEGER USMALLINT UTINYINT UUID
VARCHAR
"""
_KNOWN_SCALARS = frozenset(_KNOWN_SCALARS_TEXT.split()) | {"TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"}


def is_opaque(kind: str) -> bool:
    """Whether a type is one of a later DuckDB's, which this one can't check against."""
    parsed = parse_type(kind)
    return isinstance(parsed, Scalar) and parsed.name not in _KNOWN_SCALARS
