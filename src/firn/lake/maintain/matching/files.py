"""Files that may hold a row that a merge matches, by partitions, statistics and Bloom filters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from firn.arrow.types import arrow_schema, columns_of
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes, DataFile, Snapshot
from firn.journal.typenames import quoted
from firn.lake.maintain.matching.clauses import named_columns
from firn.lake.maintain.matching.matching import Matching
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.names import fold
from firn.predicate.dialect import parse, to_duckdb
from firn.predicate.parameters import literal
from firn.predicate.predicate import Predicate, conjuncts
from firn.predicate.select import condition, conditions
from firn.predicate.trees import exp

MAX_VALUES = 1000
"""Values of a column of the source by which files are looked for, besides their range."""


def may_match(matching: Matching, snapshot: Snapshot, spec: PartitionSpec) -> list[DataFile]:
    """The files of a snapshot that may hold a row that the merge looks at: one for which the condition of the match
    is true, or that of a clause for rows that no source row matches."""
    found: set[str] = set()
    for predicates in _looked_at(matching, snapshot.columns):
        files = list(snapshot.files)
        for predicate in predicates:
            pruner = Pruner(predicate, snapshot.columns, spec)
            files = [file for file in files if pruner.may_match(file)]
        found |= {file.path for file in files}
    return [file for file in snapshot.files if file.path in found]


def looked_at(matching: Matching, columns: ColumnTypes) -> str | None:
    """A predicate that is true for each row of the target that the merge looks at; None if it looks at all."""
    lists = _looked_at(matching, columns)
    if not all(lists):
        return None
    texts = [" AND ".join(f"({predicate.sql})" for predicate in predicates) for predicates in lists]
    return " OR ".join(f"({text})" for text in texts)


def _looked_at(matching: Matching, columns: ColumnTypes) -> list[list[Predicate]]:
    """Lists of predicates on the target alone: for each row that the merge looks at, all of one list are true."""
    alone = [c for _, c in matching.of("not matched by source") if c.action != "nothing"]
    lists = []
    for one in (matching, *(replace(matching, on=c.condition or "true", rows=None) for c in alone)):
        predicates = []
        for text in _implied(one):
            with suppress(InvalidInputError):
                predicates.append(Predicate.parse(text, columns))
        lists.append(predicates)
    return lists


def deciding_columns(matching: Matching) -> ColumnTypes:
    """The target's columns by which the first pass decides: those that the condition of the match and the clauses'
    conditions name. Never none, so that rows can be counted."""
    texts = [matching.on, *(clause.condition for clause in matching.clauses if clause.condition)]
    found = named_columns(texts, matching.types, matching.target)
    return {name: matching.types[name] for name in found} or dict(list(matching.types.items())[:1])


def equal_columns(on: str, target: str, source: str) -> list[str]:
    """The columns of which a condition says that they are equal in both, if it says nothing else; else none."""
    try:
        terms = conjuncts(parse(on, "condition", into=exp.Condition))
        trusted = conditions(on)
    except InvalidInputError:
        return []
    found = []
    for term in terms:
        sides = (term.left, term.right) if isinstance(term, exp.EQ) else ()
        columns = [side for side in sides if isinstance(side, exp.Column) and len(side.parts) == 2]
        if len(columns) != 2 or condition(to_duckdb(term)) not in trusted:
            return []
        one, other = columns
        if {fold(one.table), fold(other.table)} != {fold(target), fold(source)}:
            return []
        if fold(one.name) != fold(other.name):
            return []
        found.append(one.name)
    return found


def source_keys(matching: Matching, key: Sequence[str]) -> list[str] | None:
    """The source's columns of which the condition says that they equal these of the target; None if one has none."""
    given = _source_types(matching)
    found: dict[str, str] = {}
    with suppress(InvalidInputError):
        trusted = conditions(matching.on)
        for term in conjuncts(parse(matching.on, "condition", into=exp.Condition)):
            sides = (term.left, term.right) if isinstance(term, exp.EQ) else ()
            if (
                not all(isinstance(side, exp.Column) for side in sides)
                or condition(to_duckdb(term)) not in trusted
            ):
                continue
            for one, other in (sides, sides[::-1]) if sides else ():
                target = _column(one, matching.types, matching.target)
                source = _column(other, given, matching.source)
                if target is not None and source is not None:
                    found.setdefault(target, source)
    return [found[name] for name in key] if found.keys() >= set(key) else None


def _implied(matching: Matching) -> list[str]:
    """Predicates on the target alone that are true wherever the condition is. Only terms count that DuckDB and the
    parser read alike."""
    try:
        tree = parse(matching.on, "condition", into=exp.Condition)
        trusted = conditions(matching.on)
    except InvalidInputError:
        return []
    given = _source_types(matching)
    found = []
    for term in conjuncts(tree):
        if condition(to_duckdb(term)) not in trusted:
            continue
        if (
            isinstance(term, exp.EQ)
            and isinstance(term.left, exp.Column)
            and isinstance(term.right, exp.Column)
        ):
            for one, other in ((term.left, term.right), (term.right, term.left)):
                target, source = (
                    _column(one, matching.types, matching.target),
                    _column(other, given, matching.source),
                )
                if target and source and _compare_alike(matching.types[target], given[source]):
                    found += _values(matching, target, source)
            continue
        columns = list(term.find_all(exp.Column))
        own = matching.rows is None
        if columns and all(
            _column(c, matching.types, matching.target, bare=own) is not None for c in columns
        ):
            copy = term.copy()
            for column in copy.find_all(exp.Column):
                column.set("table", None)
            found.append(to_duckdb(copy))
    return found


def _source_types(matching: Matching) -> ColumnTypes:
    """The types of the source's columns as Arrow has them, by whose values files are chosen."""
    return {} if matching.rows is None else columns_of(arrow_schema(matching.rows.types))


def _compare_alike(one: str, other: str) -> bool:
    """Whether values of one type equal those of the other wherever their literals do: whole numbers of any width."""
    kinds = [field.type for field in arrow_schema({"one": one, "other": other})]
    return one == other or all(map(pt.is_integer, kinds))


def _column(node: exp.Column, columns: ColumnTypes, table: str, *, bare: bool = False) -> str | None:
    """The column of a table that a node names, with the table's name before it."""
    if len(node.parts) != 2 and not (bare and len(node.parts) == 1):
        return None
    if len(node.parts) == 2 and fold(node.table) != fold(table):
        return None
    return next((name for name in columns if fold(name) == fold(node.name)), None)


def _values(matching: Matching, target: str, source: str) -> list[str]:
    """The range of a column of the source, and its values if they are few."""
    rows = matching.rows
    assert rows is not None
    kind = arrow_schema({source: rows.types[source]}).types[0]
    ordered = pt.is_integer(kind) or pt.is_string(kind) or pt.is_date(kind) or pt.is_timestamp(kind)
    if not ordered and not pt.is_decimal(kind):
        return []
    few = pa.array([], kind)
    lows: list[Any] = []
    highs: list[Any] = []
    for part in range(len(rows.parts)):
        values = pc.unique(rows.read([source], part)[source]).drop_null()
        if not len(values):
            continue
        if pt.is_timestamp(kind) and kind.unit == "ns":
            return []
        try:
            ends = pc.min_max(values).as_py()
        except OverflowError:  # a date or a time that Python hasn't
            return []
        lows.append(ends["min"])
        highs.append(ends["max"])
        if len(few) <= MAX_VALUES:
            few = pc.unique(pa.chunked_array([few, values.slice(0, MAX_VALUES + 1)]))
    if not lows:
        return ["false"]
    found = [f"{quoted(target)} BETWEEN {literal(min(lows))} AND {literal(max(highs))}"]
    if len(few) <= MAX_VALUES:
        found.append(f"{quoted(target)} IN ({', '.join(map(literal, few.to_pylist()))})")
    return found
