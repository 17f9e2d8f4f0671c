"""One call with an argument that no flush can write was accepted, and then ended the writer for everybody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from firn.errors import InvalidInputError
from firn.keyed.table import KeyedTable
from firn.keyed.write import writer
from firn.keyed.write.batch import WriteBatch
from kv_tables import new_table

ENDLESS: list[Any] = [1e18, "99999999999w", timedelta.max, 1e300]


@pytest.fixture
def table() -> KeyedTable:
    return new_table({"flush_ms": 10})


@pytest.mark.parametrize("ttl", ENDLESS)
def test_a_ttl_that_no_time_can_hold_is_refused(table: KeyedTable, ttl: Any) -> None:
    batch = WriteBatch()
    batch.put(b"k", b"v", ttl=ttl)
    with table.open(compaction=False) as kv:
        kv.put(b"kept", b"v", durable=False)
        with pytest.raises(InvalidInputError, match="9999"):
            kv.put(b"k", b"v", ttl=ttl, durable=False)
        with pytest.raises(InvalidInputError, match="9999"):
            kv.write({b"k": b"v"}, ttl=ttl)
        with pytest.raises(InvalidInputError, match="9999"):
            kv.write(batch)
        kv.put(b"also", b"v", ttl="300000w")
        assert [key for key, _ in kv.scan()] == [b"also", b"kept"]
    with pytest.raises(InvalidInputError, match="9999"):
        table.checkpoint("monday", ttl=ttl)
    with pytest.raises(InvalidInputError, match="9999"):
        new_table(ttl=ttl)


def test_a_batch_that_no_memtable_can_hold_is_refused(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH", 10_000)
    with table.open(compaction=False) as kv:
        kv.put(b"kept", b"v", durable=False)
        with pytest.raises(InvalidInputError, match="several batches"):
            kv.write({b"%d" % n: b"v" * 1_000 for n in range(10)}, durable=False)
        kv.write({b"%d" % n: b"v" * 1_000 for n in range(8)})
        assert len(list(kv.scan())) == 9


@pytest.mark.parametrize("forever", [1e18, 10.0**300])
def test_waits_of_any_length_are_waited(forever: float) -> None:
    table = new_table({"flush_ms": 10**18})
    with table.open(poll_every=forever) as kv:
        kv.put(b"a", b"v", durable=False)
        kv.flush(forever)
        kv.put(b"b", b"v", durable=False)
        assert len(list(kv.scan())) == 2
        kv.close(forever)
    assert len(list(table.reader().scan())) == 2


def test_text_is_measured_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.keyed.encoding import values

    monkeypatch.setattr(values, "MAX_VALUE", 100)
    with new_table(schema={"a": "VARCHAR", "b": "VARCHAR[]"}).open(compaction=False) as kv:
        for value in ({"a": "€" * 40}, {"b": ["€" * 40]}, {"a": "x" * 101}):
            with pytest.raises(InvalidInputError, match="too large"):
                kv.put(b"k", value)
        kv.put(b"k", {"a": "€" * 33, "b": ["€" * 20]})
        assert kv.get(b"k")["a"] == "€" * 33


@pytest.mark.parametrize("properties", [{"flush_ms": 10**20}, {"max_l0": 1 << 64}, {"sst_size": 1 << 70}])
def test_properties_that_no_json_holds_are_refused(properties: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="below 2\\^62"):
        new_table(properties)
