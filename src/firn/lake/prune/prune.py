"""Which files and row groups a predicate needn't read, and which it holds for throughout.

A predicate is compiled once into two functions of what is known about a file: *may* some row satisfy it, and
do *all* surely. NOT is pushed down to the comparisons (which is right in three-valued logic), AND and OR
combine, and what isn't understood may match and surely doesn't hold. Unknown statistics are never taken for
empty ones, nor are absent or damaged Bloom filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from firn.journal.model import ColumnTypes, DataFile
from firn.lake.partition.bounds import NOTHING, PartitionReader
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.column_tests import (
    ALWAYS,
    NEVER,
    UNKNOWN,
    Known,
    Pair,
    Stats,
    among,
    both,
    compared,
    either,
    not_among,
    null_test,
    prefixed,
    reader,
)
from firn.predicate.bloom import NO_BLOOMS, Blooms
from firn.predicate.constants import constant_of
from firn.predicate.domain import Constant, Interval, family_of, intervals
from firn.predicate.predicate import Predicate
from firn.predicate.trees import COMPARISONS, exp


class Pruner:
    """Decides about files by their statistics, partition values and Bloom filters. No requests.

    Args:
        predicate: true for the rows that are wanted.
        columns: the table's columns and their types, as the predicate was parsed with.
        spec: the table's partition spec, and older ones; files that record none of them are judged by their
            statistics alone.

    Example:
        >>> columns = {"a": "BIGINT"}
        >>> pruner = Pruner(Predicate.parse("a > 5", columns), columns, None)
        >>> file = DataFile("t/_data/x.parquet", 1, 0, {"rows": 2, "stats": {"a": [1, 4, 0]}})
        >>> pruner.may_match(file), pruner.certainly_all(file)
        (False, False)
    """

    def __init__(self, predicate: Predicate, columns: ColumnTypes, spec: PartitionSpec | None = None) -> None:
        compiler = _Compiler(columns)
        self._may, self._all = compiler.compile(predicate.ast, False)
        self.points = frozenset(compiler.points)
        """The columns that are compared with single values, about which Bloom filters can say something."""
        specs = () if spec is None else (spec, *spec.older)
        readers = {each.id: PartitionReader(each, columns, predicate.columns) for each in specs}
        self._partitions = {id: reader for id, reader in readers.items() if reader.useful}

    def may_match(self, file: DataFile) -> bool:
        """False only if surely no row of the file satisfies the predicate."""
        return file.rows != 0 and self._may(self._known(file))

    def certainly_all(self, file: DataFile) -> bool:
        """True only if every row of the file surely satisfies the predicate. A file without rows is one."""
        return file.rows == 0 or self._all(self._known(file))

    def may_match_stats(self, stats: Stats, rows: int | None, blooms: Blooms | None = None) -> bool:
        """The same of a row group, by what `row_group_stats` and `row_group_blooms` made of it."""
        return rows != 0 and self._may(Known(stats, rows, NOTHING, blooms or NO_BLOOMS))

    def certainly_all_stats(self, stats: Stats, rows: int | None) -> bool:
        """`certainly_all` of a row group."""
        return rows == 0 or self._all(Known(stats, rows))

    def _known(self, file: DataFile) -> Known:
        extra = file.extra
        if extra is None:
            return _NOTHING_KNOWN
        reader = self._partitions.get(file.spec)
        part = NOTHING if reader is None else reader.read(file)
        if part is not NOTHING and file.odd:
            part = part.without(file.odd)  # the directory says what the file's own column holds
        blooms = extra.get("bloom") if self.points else None
        return Known(
            extra.get("stats") or {},
            extra.get("rows"),
            part,
            blooms if isinstance(blooms, Mapping) else NO_BLOOMS,
        )


_NOTHING_KNOWN = Known({}, None)


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Compiler:
    def __init__(self, columns: ColumnTypes) -> None:
        self._columns = columns
        self.points: set[str] = set()

    def compile(self, node: exp.Expression, negate: bool) -> Pair:
        """The tests of `node`, or of its negation: whether it may be true, and whether it is for all rows."""
        if isinstance(node, (exp.Paren, exp.Try)):
            return self.compile(node.this, negate)
        if isinstance(node, exp.Not):
            return self.compile(node.this, not negate)
        if isinstance(node, (exp.And, exp.Or)):
            pairs = [self.compile(each, negate) for each in _operands(node, type(node))]
            return both(pairs) if isinstance(node, exp.And) != negate else either(pairs)
        if isinstance(node, exp.Boolean):
            return ALWAYS if bool(node.this) != negate else NEVER
        if isinstance(node, exp.Null):
            return NEVER
        if isinstance(node, exp.Is):
            return self._is(node, negate)
        return self._leaf(node, negate) or UNKNOWN

    def _leaf(self, node: exp.Expression, negate: bool) -> Pair | None:
        operator = COMPARISONS.get(node.key)
        if operator is not None:
            return self._comparison(node, operator, negate)
        if isinstance(node, exp.In) and set(_given(node)) <= {"this", "expressions"}:
            return self._among(node.this, node.expressions, negate)
        if isinstance(node, exp.Between) and set(_given(node)) <= {"this", "low", "high"}:
            return self._between(node, negate)
        if isinstance(node, exp.Like) and set(_given(node)) <= {"this", "expression", "negate"}:
            return self._like(node, negate != bool(node.args.get("negate")))
        if isinstance(node, exp.StartsWith) and set(_given(node)) <= {"this", "expression"}:
            return self._prefix(node.this, node.expression, negate)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "prefix" and len(node.expressions) == 2:
            return self._prefix(node.expressions[0], node.expressions[1], negate)
        if isinstance(node, exp.Column):
            return self._among(node, [exp.true()], negate)
        return None

    def _column(self, node: exp.Expression) -> str | None:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in self._columns:
            return str(node.name)
        return None

    def _is(self, node: exp.Is, negate: bool) -> Pair:
        if isinstance(node.expression, exp.Null):
            name = self._column(node.this)
            return UNKNOWN if name is None else null_test(reader(name, self._columns[name]), negate)
        if not isinstance(node.expression, exp.Boolean):
            return UNKNOWN
        # X IS TRUE is never null, so its negation holds for exactly the other rows
        may, every = self.compile(node.this, not node.expression.this)
        if not negate:
            return Pair(may, every)
        return Pair(lambda known: not every(known), lambda known: not may(known))

    def _comparison(self, node: exp.Expression, operator: str, negate: bool) -> Pair | None:
        left, right = node.this, node.expression
        if self._column(left) is None:
            left, right, operator = right, left, _MIRRORED[operator]
        if negate:
            operator = _NEGATED[operator]
        if operator in ("=", "<>"):
            return self._among(left, [right], operator == "<>")
        found = self._placed(left, [right])
        return None if found is None else compared(reader(found[0], found[1]), operator, found[2][0])

    def _among(self, node: exp.Expression, values: Sequence[exp.Expression], negate: bool) -> Pair | None:
        found = self._placed(node, values)
        if found is None:
            return None
        name, kind, points = found
        if negate:
            return not_among(reader(name, kind), points)
        self.points.add(name)
        return among(name, kind, points)

    def _between(self, node: exp.Between, negate: bool) -> Pair | None:
        found = self._placed(node.this, [node.args["low"], node.args["high"]])
        if found is None:
            return None
        name, kind, (low, high) = found
        read = reader(name, kind)
        if negate:
            return either([compared(read, "<", low), compared(read, ">", high)])
        return both([compared(read, ">=", low), compared(read, "<=", high)])

    def _like(self, node: exp.Like, negate: bool) -> Pair | None:
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
            return None
        prefix, wildcards = re.fullmatch(r"([^%_]*)(.*)", pattern.name, re.DOTALL).groups()  # type: ignore[union-attr]
        if not wildcards:
            return self._among(node.this, [pattern], negate)
        return self._prefixed(node.this, prefix, negate, exact=set(wildcards) == {"%"})

    def _prefix(self, node: exp.Expression, prefix: exp.Expression, negate: bool) -> Pair | None:
        if not isinstance(prefix, exp.Literal) or not prefix.is_string:
            return None
        return self._prefixed(node, prefix.name, negate, exact=True)

    def _prefixed(self, node: exp.Expression, prefix: str, negate: bool, *, exact: bool) -> Pair | None:
        name = self._column(node)
        if name is None or family_of(self._columns[name]) != "string":
            return None
        return prefixed(reader(name, self._columns[name]), prefix, negate, exact)

    def _placed(
        self, node: exp.Expression, values: Sequence[exp.Expression]
    ) -> tuple[str, str, list[Interval]] | None:
        """A column, its type, and where the constants lie that it is compared with; None if not sure."""
        name = self._column(node)
        if name is None or family_of(self._columns[name]) == "other":
            return None
        constants: list[Constant] = []
        for value in values:
            constant = constant_of(value)
            if constant is None:
                return None
            constants.append(constant)
        points = intervals(constants, self._columns[name])
        return None if points is None else (name, self._columns[name], points)


def _given(node: exp.Expression) -> Iterator[str]:
    """The parts of a node that say something; one that isn't known could change its meaning."""
    return (key for key, value in node.args.items() if value not in (None, False, []))


def _operands(node: exp.Expression, kind: type[exp.Expression]) -> Iterator[exp.Expression]:
    """The operands of a chain of ANDs or ORs; without recursion, as a chain may be thousands long."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.expression, node.this]
        else:
            yield node
