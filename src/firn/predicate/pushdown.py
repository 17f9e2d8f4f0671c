"""Which parts of a query's predicates prune the files of which table. Pure: works on sqlglot's tree.

A conjunct prunes a table only if no row of a file that it excludes could have reached the result, whatever
else the query does. That holds for a conjunct that

- stands in the WHERE of the very SELECT that reads the table, or in the ON of an inner join where no join of
  that SELECT is an outer one;
- reads columns of that one table only: qualified by its alias, or unqualified, known to no other source, and
  all sources known;
- isn't true for nulls: a column against literals of its own type family by = <> < <= > >= IN BETWEEN LIKE, IS
  NOT NULL, or ORs of these. A null that an outer join makes up would else be kept by the WHERE, and pruning would
  make up more of them.

Nothing is pruned in a SELECT with samples, pivots, lateral or unnested sources, or joins other than the plain
ones: there, which rows a source has decides about other rows. Predicates of an outer SELECT never reach into
a CTE or subquery. Whether a float's upper bound can be trusted is for `firn.lake.prune.prune` to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from firn.journal.model import ColumnTypes
from firn.names import fold
from firn.predicate.domain import family_of
from firn.predicate.predicate import conjuncts
from firn.predicate.trees import COMPARISONS, exp

_PLAIN_SIDES = ("", "LEFT", "RIGHT", "FULL")
_PLAIN_KINDS = ("", "INNER", "OUTER", "CROSS")
_FORBIDDEN_IN_SELECT = ("laterals", "sample", "pivots", "match", "connect", "prewhere")
_FORBIDDEN_IN_SOURCE = ("joins", "laterals", "sample", "pivots", "version", "when", "changes", "partition")

NUMBERS = ("integer", "decimal", "float")
_CAST_FAMILIES = {
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
    "VARBINARY": "binary",
}


@dataclass(frozen=True)
class _Source:
    """One entry of a FROM: its alias, and the lake table it is, if it is one whose columns are known."""

    alias: str
    table: exp.Table | None
    columns: ColumnTypes | None


def conjuncts_by_table(
    tree: exp.Expression, columns_of: Callable[[exp.Table], ColumnTypes | None]
) -> dict[int, list[exp.Expression]]:
    """For the `id` of each table node, copies of the conjuncts that may prune it, columns unqualified.

    Args:
        tree: the whole query.
        columns_of: the columns of a node that reads a lake table; None for CTEs.
    """
    found: dict[int, list[exp.Expression]] = {}
    for select in tree.find_all(exp.Select):
        sources = _sources(select, columns_of)
        if sources is None:
            continue
        for conjunct in _conjuncts_of(select):
            source = _only_source(conjunct, sources, _select_aliases(select))
            if source is None or source.table is None or source.columns is None:
                continue
            if _rejects_nulls(conjunct, source.columns):
                found.setdefault(id(source.table), []).append(_unqualified(conjunct, source.columns))
    return found


def used_columns(tree: exp.Expression) -> Callable[[ColumnTypes], list[str]]:
    """For a table's columns those that a query may use: all that it names anywhere, at least one.

    All of them where the query has a `*` (but for `count(*)`), or anything else that takes columns unnamed: a
    natural join, a pivot, DESCRIBE or SUMMARIZE, a table's name in the place of a column, columns by their places
    (`#2`, `t AS a(x, y)`).
    """
    names = _named(tree)
    if names is None:
        return list
    return lambda columns: [name for name in columns if fold(name) in names] or list(columns)[:1]


def _named(tree: exp.Expression) -> set[str] | None:
    """All names in a query; None where it takes columns unnamed."""
    names: set[str] = set()
    aliases: set[str] = set()
    alone: list[tuple[str, str]] = []
    unnamed = (exp.Pivot, exp.Columns, exp.Describe, exp.Summarize, exp.PositionalColumn)
    for node in tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, unnamed) or _renames_table(node):
            return None
        if isinstance(node, exp.Join) and (node.method or "").upper() == "NATURAL":
            return None
        if isinstance(node, exp.Identifier):
            names.add(fold(node.name))
        elif isinstance(node, (exp.Table, exp.Subquery, exp.CTE)):
            aliases.add(fold(node.alias_or_name))
        elif isinstance(node, exp.Column):
            alone.append((fold(node.table), fold(node.name)))
        elif isinstance(node, exp.TimeUnit) and isinstance(node.args.get("unit"), exp.Var):
            names |= _units(node.args["unit"].name)
    rows = (name for before, name in alone if before in _SCHEMAS or before not in aliases)
    return names if aliases.isdisjoint(rows) else None


_SCHEMAS = ("", "main", "temp", "firn")
"""What stands before the name of a table, besides nothing."""


def _units(unit: str) -> set[str]:
    """The columns that sqlglot may have taken for a unit of time, as in `date_trunc(unit, time)`: it writes short
    names out, and all in capitals."""
    short = exp.TimeUnit.UNABBREVIATED_UNIT_NAME.items()
    return {fold(unit), *(fold(name) for name, long in short if long == unit)}


def _renames_table(node: exp.Expression) -> bool:
    """Whether it gives the columns of a table new names, in their order."""
    if not isinstance(node, exp.TableAlias) or not node.args.get("columns"):
        return False
    source = node.parent
    while isinstance(source, exp.Subquery):
        source = source.this
    return isinstance(source, exp.Table)


def argument(node: exp.Expression, name: str) -> exp.Expression | None:
    """A part of a node whose key is a Python keyword; sqlglot has spelled these both ways."""
    part: exp.Expression | None = node.args.get(f"{name}_") or node.args.get(name)
    return part


def _sources(
    select: exp.Select, columns_of: Callable[[exp.Table], ColumnTypes | None]
) -> list[_Source] | None:
    """The sources of a SELECT, or None where nothing may be pruned."""
    start = argument(select, "from")
    if start is None or any(select.args.get(key) for key in _FORBIDDEN_IN_SELECT):
        return None
    nodes = [start.this]
    for join in select.args.get("joins") or []:
        if (join.method or "").upper() not in ("", "NATURAL") or join.side.upper() not in _PLAIN_SIDES:
            return None
        if join.kind.upper() not in _PLAIN_KINDS:
            return None
        nodes.append(join.this)
    sources = []
    for node in nodes:
        if any(node.args.get(key) for key in _FORBIDDEN_IN_SOURCE):
            return None
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            renamed = isinstance(node.args.get("alias"), exp.TableAlias) and node.args["alias"].args.get(
                "columns"
            )
            columns = None if renamed else columns_of(node)
            sources.append(_Source(fold(node.alias_or_name), None if renamed else node, columns))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            sources.append(_Source(fold(node.alias), None, None))
        else:
            return None
    return sources


def _conjuncts_of(select: exp.Select) -> Iterator[exp.Expression]:
    where = select.args.get("where")
    if where is not None:
        yield from conjuncts(where.this)
    joins = select.args.get("joins") or []
    if not any(join.side or join.kind.upper() == "OUTER" for join in joins):
        for join in joins:
            if join.args.get("on") is not None:
                yield from conjuncts(join.args["on"])


def _select_aliases(select: exp.Select) -> set[str]:
    """Names that the SELECT list gives to something else than the column of that name; DuckDB lets a WHERE
    use them."""
    return {
        fold(item.alias)
        for item in select.expressions
        if isinstance(item, exp.Alias)
        and not (isinstance(item.this, exp.Column) and fold(item.this.name) == fold(item.alias))
    }


def _only_source(conjunct: exp.Expression, sources: list[_Source], aliases: set[str]) -> _Source | None:
    """The one source whose columns the conjunct reads; None if there is more than one, or doubt."""
    if conjunct.find(exp.Query, exp.Dot) is not None:
        return None
    found: list[_Source] = []
    for column in conjunct.find_all(exp.Column):
        source = _source_of(column, sources, aliases)
        if source is None:
            return None
        if source not in found:
            found.append(source)
    return found[0] if len(found) == 1 else None


def _source_of(column: exp.Column, sources: list[_Source], aliases: set[str]) -> _Source | None:
    name = fold(column.name)
    if len(column.parts) == 2:
        qualified = [source for source in sources if source.alias == fold(column.table)]
        if len(qualified) == 1 and _spelled(name, qualified[0]):
            return qualified[0]
        return None
    if len(column.parts) > 2 or name in aliases or any(source.alias == name for source in sources):
        return None
    if any(source.columns is None for source in sources):
        return None
    owners = [source for source in sources if _spelled(name, source)]
    return owners[0] if len(owners) == 1 else None


def _spelled(name: str, source: _Source) -> str | None:
    """The table's spelling of a column; None if it has none, or two that differ only by case."""
    matches = [column for column in source.columns or () if fold(column) == name]
    return matches[0] if len(matches) == 1 else None


def _rejects_nulls(node: exp.Expression, columns: ColumnTypes) -> bool:
    if isinstance(node, exp.Paren):
        return _rejects_nulls(node.this, columns)
    if isinstance(node, exp.Or):
        return _rejects_nulls(node.left, columns) and _rejects_nulls(node.right, columns)
    if isinstance(node, exp.Not):
        inner = node.this.unnest()
        return (
            isinstance(inner, exp.Is)
            and isinstance(inner.this, exp.Column)
            and isinstance(inner.expression, exp.Null)
        )
    if node.key in COMPARISONS:
        left, right = node.left, node.right
        if isinstance(right, exp.Column):
            left, right = right, left
        return isinstance(left, exp.Column) and _same_family(left, [right], columns)
    if isinstance(node, exp.Like):
        return (
            isinstance(node.this, exp.Column)
            and _same_family(node.this, [node.expression], columns)
            and literal_family(node.expression) == "string"
            and "\\" not in node.expression.name
        )
    if isinstance(node, exp.In):
        plain = not any(node.args.get(key) for key in ("query", "unnest", "field"))
        return (
            plain
            and bool(node.expressions)
            and isinstance(node.this, exp.Column)
            and _same_family(node.this, node.expressions, columns)
        )
    if isinstance(node, exp.Between):
        bounds = [node.args["low"], node.args["high"]]
        return (
            not node.args.get("symmetric")
            and isinstance(node.this, exp.Column)
            and _same_family(node.this, bounds, columns)
        )
    return False


def _same_family(column: exp.Column, literals: list[exp.Expression], columns: ColumnTypes) -> bool:
    kind = next(kind for name, kind in columns.items() if fold(name) == fold(column.name))
    family = family_of(kind)
    return all(suits(literal, family) for literal in literals)


def suits(node: exp.Expression, family: str) -> bool:
    """Whether a literal is of a column's own family. Text may stand for bytes where it is plain ASCII, of which
    DuckDB and Spark make the same bytes."""
    found = literal_family(node)
    if family == "binary" and found == "string":
        return bool(node.name.isascii() and "\\" not in node.name)
    return found == ("number" if family in NUMBERS else family)


def literal_family(node: exp.Expression) -> str | None:
    """The family of a literal, "number" for all numbers; None for anything else."""
    if isinstance(node, exp.Neg):
        inner = node.this
        return "number" if isinstance(inner, exp.Literal) and not inner.is_string else None
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "number"
    if isinstance(node, exp.Boolean):
        return "boolean"
    if type(node) is exp.Cast and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _CAST_FAMILIES.get(node.to.this.name if hasattr(node.to.this, "name") else "")
    return None


def _unqualified(conjunct: exp.Expression, columns: ColumnTypes) -> exp.Expression:
    copy = conjunct.copy()
    spelled = {fold(name): name for name in columns}
    for column in list(copy.find_all(exp.Column)):
        column.set("table", None)
        column.set("this", exp.to_identifier(spelled[fold(column.name)], quoted=True))
    return copy
