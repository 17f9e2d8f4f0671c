"""The tables that a query names: found, pinned at one version each, and narrowed to what the query needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, Protocol, TypeVar

from firn.errors import InvalidInputError, TableNotFoundError
from firn.names import fold
from firn.predicate.dialect import to_duckdb
from firn.predicate.predicate import Predicate
from firn.predicate.pushdown import argument, conjuncts_by_table, used_columns
from firn.predicate.trees import exp
from firn.reads import QueryMoment, TableRead, plan_read
from firn.sql.syntax.time_travel import Past

T = TypeVar("T")


class QueryTables(Protocol):
    """The tables that a query can name; `firn.Database` is one."""

    def table(self, name: str) -> Any: ...

    def tables(self) -> list[str]: ...


def pin(
    tables: QueryTables,
    names: Iterable[str],
    versions: Mapping[str, Any] | None = None,
    past: Mapping[str, Past] | None = None,
) -> dict[str, TableRead]:
    """The tables by the names that a query gives them: each at one version, all record tables at one commit.

    `versions` are by the names of tables, `past` by the names in the query.

    Names match exactly, else in any case. Cost: opening each table and its snapshot; 1 LIST and a GET a table where a
    name is spelled in another case.

    Raises:
        TableNotFoundError: no such table; the message names similar ones.
    """
    found: dict[str, Any] = {}
    past = past or {}
    for name in names:
        table = opened(tables, past[name].table if name in past else name)
        other = next((there for there in found if fold(there) == fold(name)), None)
        if other is None:
            found[name] = table
        elif found[other].name != table.name:
            raise InvalidInputError(
                f"the query reads the tables {found[other].name!r} and {table.name!r}, which SQL can't tell apart "
                "(case doesn't count): read them by two queries."
            )
    moment = QueryMoment()  # all are open before a snapshot is taken, which then has them
    at = versions or {}
    return {
        name: plan_read(
            table, moment=moment, at=past[name].at if name in past else at.get(table.name), indexed=True
        )
        for name, table in found.items()
    }


def narrow(
    reads: Mapping[str, TableRead],
    tree: exp.Expression | None,
    trusted: Callable[[str], bool] = lambda sql: True,
) -> dict[str, TableRead]:
    """The reads with the columns that a query may use, less what can't hold a row that reaches its result.

    Args:
        tree: the query's, by sqlglot; None where it doesn't read the text: then all is read.
        trusted: whether the engine reads such a condition in the query, too.
    """
    try:
        return dict(reads) if tree is None else _narrowed(reads, tree, trusted)
    except RecursionError:  # thousands of terms: all is read
        return dict(reads)


def _narrowed(
    reads: Mapping[str, TableRead], tree: exp.Expression, trusted: Callable[[str], bool]
) -> dict[str, TableRead]:
    by_name = {fold(name): read for name, read in reads.items()}
    nodes = table_nodes(tree)
    known = {id(node): by_name[fold(node.name)].known for node in nodes if fold(node.name) in by_name}
    wanted = conjuncts_by_table(tree, lambda node: known.get(id(node)))
    used, found = used_columns(tree), {}
    for name, read in reads.items():
        places = [wanted.get(id(node), []) for node in nodes if fold(node.name) == fold(name)]
        narrowed = read.select(used(read.known))
        places = [[one for one in place if trusted(to_duckdb(one))] for place in places]
        found[name] = _pruned(narrowed, places) if places and all(places) else narrowed
    return found


MAX_NARROWED = 50_000
"""Characters of a query that are looked at for what it leaves out: some 8,000 numbers of an IN, a second's work."""


def parsed(text: str) -> exp.Expression | None:
    """sqlglot's tree of a query in DuckDB's SQL, for `narrow` alone; None where it doesn't read it, or would take
    longer than it may save."""
    if len(text) > MAX_NARROWED:
        return None
    from sqlglot.errors import SqlglotError

    from firn.predicate.grammar import FirnSQL, quiet

    try:
        with quiet():
            return FirnSQL().parse(text)[0]
    except (SqlglotError, RecursionError):
        return None


def table_nodes(tree: exp.Expression) -> list[exp.Table]:
    """The places where a query reads a table, CTEs left out."""
    return [
        node
        for node in tree.find_all(exp.Table)
        if isinstance(node.this, exp.Identifier) and not _is_cte(node)
    ]


def _is_cte(node: exp.Table) -> bool:
    """Whether a name means a CTE: one of a WITH around it, an earlier one of the same WITH, or its own if
    that is recursive."""
    if node.args.get("db"):
        return False
    name = fold(node.name)
    child: exp.Expression = node
    parent = node.parent
    within: exp.CTE | None = None
    while parent is not None:
        if isinstance(parent, exp.CTE):
            within = parent
        with_ = argument(parent, "with") if isinstance(parent, exp.Expression) else None
        if isinstance(with_, exp.With):
            visible = list(with_.expressions)
            if child is with_ and within is not None:
                at = next(i for i, cte in enumerate(visible) if cte is within)
                recursive = bool(with_.args.get("recursive"))
                visible = visible[: at + 1] if recursive else visible[:at]
            if any(fold(cte.alias) == name for cte in visible):
                return True
        if not isinstance(parent, (exp.CTE, exp.With)):
            within = None
        child, parent = parent, parent.parent
    return False


def opened(tables: QueryTables, name: str) -> Any:
    """The table of that name, in this spelling or else in any case."""
    try:
        return tables.table(name)
    except TableNotFoundError:
        found = [other for other in tables.tables() if fold(other) == fold(name)]
        if len(found) > 1:
            raise TableNotFoundError(
                f"{name!r} can mean the tables {' and '.join(map(repr, found))}; write one of them exactly."
            ) from None
        if not found:
            raise
    return tables.table(found[0])


def by_name(given: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    """The rows that a query names, under the names that it gives them."""
    folded = {fold(name): rows for name, rows in given.items()}
    return {name: folded[fold(name)] for name in names if fold(name) in folded}


def _pruned(read: TableRead, places: Sequence[Sequence[exp.Expression]]) -> TableRead:
    """Less what no place of the query wants: a place wants rows for which all of its conjuncts are true."""
    if len(places) == 1:
        conjuncts = list(places[0])
    else:
        wanted = [reduce(exp.and_, one) for one in places]
        conjuncts = [exp.or_(*wanted)]
    understood = []
    for conjunct in conjuncts:
        with suppress(InvalidInputError):  # the engine says what is wrong with it, or knows better
            understood.append(Predicate.parse(to_duckdb(conjunct), read.known))
    return read.pruned(understood) if understood else read
