"""The judge of pruning: whatever the table, its partitioning and the predicate, no matching row is pruned away,
and no file is taken to match as a whole that doesn't. DuckDB says what matches, in sessions of several zones.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from firn.arrow.types import arrow_schema, conform
from firn.errors import InvalidInputError
from firn.journal.model import DataFile
from firn.lake.parquet.bloom import marker_entries, writer_options
from firn.lake.partition.partition import PartitionSpec, is_told_by_path
from firn.lake.prune.prune import Pruner
from firn.predicate.bloom import has_filters
from firn.predicate.predicate import Predicate
from firn.predicate.stats import from_metadata, row_group_stats
from prune_grammar import COLUMNS, FIELDS, WIDER, equalities, predicates, tables

CONNECTION = duckdb.connect(config={"threads": 1})
FILTERED = sorted(name for name, kind in COLUMNS.items() if has_filters(kind))
EXAMPLES = int(os.environ.get("FIRN_PRUNE_EXAMPLES", "0"))


def budget(examples: int) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=EXAMPLES or examples, suppress_health_check=slow)


def _nan_columns(table: pa.Table) -> frozenset[str]:
    floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    return frozenset(name for name in floats if pc.any(pc.is_nan(table[name])).as_py())


def _matching(table: pa.Table, predicate: Predicate) -> list[bool] | None:
    CONNECTION.register("rows", table)
    try:
        found = CONNECTION.execute(f"SELECT ({predicate.sql}) IS TRUE FROM rows").fetchall()
    except duckdb.Error:
        return None  # fails on a row, so there is no answer to prune wrongly
    finally:
        CONNECTION.unregister("rows")
    return [bool(hit) for (hit,) in found]


@st.composite
def _columns_now(draw: st.DrawFn) -> dict[str, str]:
    columns = dict(COLUMNS)
    for name in draw(st.lists(st.sampled_from(sorted(WIDER)), max_size=2)):
        if WIDER[name]:
            columns[name] = draw(st.sampled_from(WIDER[name]))
    return columns


@budget(80)
@given(st.data())
def test_pruning_never_loses_a_row(data: st.DataObject) -> None:
    _pruned(data)


@pytest.mark.long
@budget(400)
@given(st.data())
def test_pruning_never_loses_a_row_at_length(data: st.DataObject) -> None:
    _pruned(data)


def _pruned(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(FIELDS), max_size=2))
    try:
        spec = PartitionSpec.parse(fields, COLUMNS)
    except InvalidInputError:
        spec = PartitionSpec.parse(fields[:1], COLUMNS)
    columns = data.draw(_columns_now())
    focus = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    focus += [f.source for f in spec.fields]
    names = sorted({*focus, "b", "s"})
    rows = pa.table(data.draw(tables(names)), schema=arrow_schema({n: COLUMNS[n] for n in names}))
    text = data.draw(predicates(focus))
    try:
        predicate = Predicate.parse(text, columns)
    except InvalidInputError:
        event("predicate refused")
        return
    pruner = Pruner(predicate, columns, spec)
    # Engines in other zones are asked as well, but not for constants that differ there.
    zones = ["UTC"] if "CAST(TIMESTAMPTZ" in text else ["UTC", "Asia/Kolkata", "Etc/GMT+12"]
    CONNECTION.execute(f"SET TimeZone = '{data.draw(st.sampled_from(zones))}'")
    nan_known = data.draw(st.booleans())
    unknown = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=2))
    for part in spec.split(rows):
        _judge(part.directory, part.values, part.rows, spec, columns, predicate, pruner, nan_known, unknown)
    assert predicate == pickle.loads(pickle.dumps(predicate))


@budget(80)
@given(st.data())
def test_filters_alone_never_lose_a_row(data: st.DataObject) -> None:
    _filtered(data)


@pytest.mark.long
@budget(400)
@given(st.data())
def test_filters_alone_never_lose_a_row_at_length(data: st.DataObject) -> None:
    _filtered(data)


def _filtered(data: st.DataObject) -> None:
    CONNECTION.execute("SET TimeZone = 'UTC'")
    names = data.draw(st.lists(st.sampled_from(FILTERED), min_size=1, max_size=2, unique=True))
    columns = {**COLUMNS, **{n: data.draw(st.sampled_from([COLUMNS[n], *WIDER.get(n, [])])) for n in names}}
    rows = pa.table(data.draw(tables(names)), schema=arrow_schema({n: COLUMNS[n] for n in names}))
    try:
        predicate = Predicate.parse(data.draw(equalities(names)), columns)
    except InvalidInputError:
        event("predicate refused")
        return
    pruner = Pruner(predicate, columns)
    _judge("", {}, rows, PartitionSpec(()), columns, predicate, pruner, True, list(COLUMNS))


def _judge(
    directory: str,
    values: Mapping[str, str | None],
    rows: pa.Table,
    spec: PartitionSpec,
    columns: Mapping[str, str],
    predicate: Predicate,
    pruner: Pruner,
    nan_known: bool,
    unknown: list[str],
) -> None:
    sink = pa.BufferOutputStream()
    kinds = {name: COLUMNS[name] for name in rows.column_names if has_filters(COLUMNS[name])}
    options = writer_options(kinds, rows=2)
    pq.write_table(rows, sink, row_group_size=2, store_decimal_as_integer=True, **options)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    nans = _nan_columns(rows) if nan_known else None
    stats = from_metadata(metadata, rows.schema, nan_columns=nans)
    blooms = marker_entries(sink.getvalue(), metadata, kinds)
    assert not rows.num_rows or blooms.keys() == kinds.keys()
    extra = {
        "rows": rows.num_rows,
        "bloom": blooms,
        "stats": {n: e for n, e in stats.items() if n not in unknown},
        "spec": spec.id,
    }
    if not is_told_by_path(values):
        extra["part"] = dict(values)
    file = DataFile(f"db/t/_data/{directory + '/' if directory else ''}x.parquet", 1, 0, extra)
    read = conform(rows, columns, loose=True)
    hits = _matching(read, predicate)
    if hits is None:
        event("predicate fails on a row")
        return
    may, every = pruner.may_match(file), pruner.certainly_all(file)
    event("pruned" if not may else "all" if every else "kept")
    if not may and pruner.may_match(file._replace(extra={**extra, "bloom": {}})):
        event("pruned by a Bloom filter")
    assert may or not any(hits)
    assert all(hits) or not every
    bare = file._replace(extra=None)
    assert pruner.may_match(bare) or not any(hits)
    assert all(hits) or not pruner.certainly_all(bare)
    for group in range(metadata.num_row_groups):
        slim = row_group_stats(metadata, group, rows.schema, predicate.columns, nan_columns=nans)
        count = metadata.row_group(group).num_rows
        found = hits[2 * group : 2 * group + count]
        assert pruner.may_match_stats(slim, count) or not any(found)
        of_group = {name: [kind, [each[group]]] for name, (kind, each) in blooms.items()}
        assert pruner.may_match_stats({}, count, of_group) or not any(found)
