"""Keys of DECIMAL and UUID were refused. They sort as their values do, in every verb and on every way in."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

import firn
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.definition import decode_framed
from firn.keyed.definition.definition import FORMAT_VERSION
from firn.keyed.encoding.seqs import WIDE_SEQ
from firn.keyed.table import KeyedTable
from firn.keyed.write.batch import WriteBatch

KINDS = {"price": "DECIMAL(38,2)", "id": "UUID"}
MOST = Decimal("999999999999999999999999999999999999.99")
PRICES = [MOST.copy_negate(), Decimal("-12.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("7.00"), MOST]
IDS = [str(UUID(int=n)) for n in (0, 1, 2**64, 2**127 - 1, 2**127, 2**128 - 1)]
PAIRS = [(price, id) for price in PRICES for id in IDS]


@pytest.fixture
def table() -> KeyedTable:
    return firn.connect("memory://").create_table("t", kind="keyed", key=KINDS, schema={"n": "BIGINT"})


def fill(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        for n, key in reversed(list(enumerate(PAIRS))):
            kv.put(key, {"n": n}, durable=n % 10 == 0)


def listed(table: Any) -> list[Any]:
    with table.reader() as reader:
        return [key for key, _ in reader.scan()]


def test_keyed_12_keys_sort_as_values_do(table: KeyedTable) -> None:
    fill(table)
    for _ in range(2):
        with table.reader() as reader:
            assert [(key, row["n"]) for key, row in reader.scan()] == [(k, n) for n, k in enumerate(PAIRS)]
            assert [key for key, _ in reader.scan(reverse=True)] == PAIRS[::-1]
            assert [key for key, _ in reader.scan(-20, 7)] == [k for k in PAIRS if -20 <= k[0] < 7]
            start, end = (0, IDS[1].upper()), (Decimal("7"), UUID(IDS[4]))
            assert [key for key, _ in reader.scan(start, end)] == [
                k for k in PAIRS if (0, IDS[1]) <= k < (7, IDS[4])
            ]
            assert [key for key, _ in reader.scan_prefix(Decimal("-0.010"))] == [
                k for k in PAIRS if k[0] == Decimal("-0.01")
            ]
            assert [key for key, _ in reader.scan_prefix((7, IDS[2]))] == [(Decimal(7), IDS[2])]
            assert reader.get((7, UUID(IDS[0]))) == {"n": PAIRS.index((7, IDS[0]))}
            found = reader.scan().to_arrow()
        assert found.schema.types[:2] == [pa.decimal128(38, 2), pa.string()]
        assert list(zip(*(found[name].to_pylist() for name in KINDS), strict=True)) == PAIRS
        table.compact(full=True)


def test_keyed_12_verbs_checkpoints_clones_and_changes(table: KeyedTable) -> None:
    fill(table)
    table.checkpoint("noon")
    since = table.changes().version
    batch = WriteBatch()
    batch.put((1, IDS[5]), {"n": 1})
    batch.delete((MOST, IDS[5].upper()))
    with table.open(compaction=False) as kv:
        kv.delete((7, UUID(IDS[0])))
        kv.write(batch)
        kv.put((Decimal("1.0"), None), {"n": 2})
        snapshot = kv.snapshot()
        kv.put((2, IDS[0]), {"n": 3})
        assert kv.multi_get([(7, IDS[0]), (1, UUID(IDS[5])), (2, IDS[0])]) == [None, {"n": 1}, {"n": 3}]
        assert (Decimal(2), IDS[0]) not in [key for key, _ in snapshot.scan()]
    told = table.changes(since).to_arrow().to_pylist()
    assert {(row["price"], row["id"], row["_kind"]) for row in told} == {
        (Decimal(7), IDS[0], "delete"),
        (Decimal(1), IDS[5], "put"),
        (MOST, IDS[5], "delete"),
        (Decimal(1), None, "put"),
        (Decimal(2), IDS[0], "put"),
    }
    gone = {(Decimal(7), IDS[0]), (MOST, IDS[5])}
    now = sorted({*PAIRS, (Decimal(1), IDS[5]), (Decimal(1), ""), (Decimal(2), IDS[0])} - gone)
    table.compact(full=True)
    assert [(price, id or "") for price, id in listed(table)] == now
    copy = table.clone("copy", at="noon")
    assert listed(copy) == PAIRS and copy.definition.features == table.definition.features


def test_keyed_12_loads_of_all_kinds() -> None:
    db = firn.connect("memory://")
    query = "SELECT p::DECIMAL(9,1) AS price, u::UUID AS id, 1 AS n FROM (VALUES {}) v(p, u)".format(
        ", ".join(f"({price}, '{id}')" for price in (-3.5, 2) for id in reversed(IDS))
    )
    pairs = [(price, id) for price in (Decimal("-3.5"), Decimal(2)) for id in IDS]
    rows = [{"price": price, "id": UUID(id), "n": 1} for price, id in reversed(pairs)]
    texts = pa.table(
        {
            "price": pa.array([p for p, _ in pairs], pa.decimal256(30, 4)),
            "id": pa.array([id.upper() for _, id in pairs], pa.large_string()).dictionary_encode(),
            "n": pa.array([1] * len(pairs)),
        }
    )
    bytes_of = pa.array([UUID(id).bytes for id in texts["id"].to_pylist()], pa.binary(16))
    extension = texts.set_column(1, "id", pa.ExtensionArray.from_storage(pa.uuid(), bytes_of))
    for number, data in enumerate(
        (duckdb.sql(query), duckdb.sql(query).to_arrow_table(), rows, texts, extension)
    ):
        table = db.create_table(f"t{number}", kind="keyed", key=KINDS, schema={"n": "BIGINT"})
        table.load(data)
        assert listed(table) == pairs


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"price": Decimal("0.001"), "id": IDS[0]}, "column 'price' is DECIMAL"),
        ({"price": 0.125, "id": IDS[0]}, "column 'price' is DECIMAL"),
        (
            {"price": Decimal(1), "id": "no uuid"},
            "'id' is UUID, and the value 'no uuid' of the data isn't one",
        ),
    ],
)
def test_keyed_12_what_doesnt_fit_is_not_loaded(table: KeyedTable, row: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        table.load([{**row, "n": 1}, {**row, "id": IDS[1], "n": 2}])
    assert listed(table) == []


def test_keyed_12_advice_on_keys_works(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        for key, advice in (
            (
                (0.1, IDS[0]),
                "give a decimal.Decimal or an int with at most 36 digits before the point and 2 behind",
            ),
            ((1, 7), "give a uuid.UUID, or text like '6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38'"),
        ):
            with pytest.raises(InvalidInputError, match=advice):
                kv.put(key, {"n": 1})
        kv.put((Decimal("0.1"), "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38"), {"n": 1})
    assert listed(table) == [(Decimal("0.10"), "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38")]


def test_keyed_12_older_firns_refuse_such_a_table_by_name(table: KeyedTable) -> None:
    db = firn.connect("memory://")
    plain = db.create_table(
        "plain", kind="keyed", key={"a": "BIGINT"}, schema={"d": "DECIMAL(5,2)", "u": "UUID"}
    )
    assert plain.definition.features == (WIDE_SEQ,)
    data = table.bucket.get("t/_firn/table.json").data
    assert json.loads(data)["features"] == ["key-types", "wide-seq"]
    with pytest.raises(UnsupportedError, match="needs key-types; this version of Firn reads keyed tables"):
        decode_framed(
            data, "t", dict, version=FORMAT_VERSION, noun="keyed table", remedy="", known={WIDE_SEQ}
        )
