"""Small things that a new user meets: reprs, limits, versions."""

from __future__ import annotations

from typing import Any

import pytest

import firn


@pytest.fixture
def t() -> Any:
    table = firn.connect("memory://").create_table("t")
    table.append([{"a": n, "b": "<x>"} for n in range(5)])
    return table


def test_a_scan_says_what_it_is_and_reads_nothing_for_it(t: Any) -> None:
    before = t.bucket.counters.requests
    assert repr(t.scan()) == "<Scan of t>"
    scan = t.scan(columns=["a"], where="a > 1", limit=2)
    assert repr(scan) == "<Scan of t columns=['a'] where='a > 1' limit=2>"
    assert t.bucket.counters.requests == before
    shown = scan._repr_html_()
    assert "<td>a</td><td>BIGINT</td>" in shown
    assert "where=&#x27;a &gt; 1&#x27;" in shown
    assert "1 of 1 files" in shown


def test_a_limit_bounds_every_answer(t: Any) -> None:
    t.append([{"a": 9, "b": "y"}])
    scan = t.scan(limit=3)
    assert scan.to_arrow().num_rows == sum(b.num_rows for b in scan.to_batches()) == scan.count() == 3
    assert len(scan.to_pandas()) == len(scan.to_polars()) == 3
    assert "limit      3 rows" in scan.explain()
    assert t.scan(limit=0).to_arrow().schema == t.scan().to_arrow().schema
    assert t.scan(limit=99).to_arrow().num_rows == t.scan(limit=99).count() == 6


def test_files_behind_a_limit_are_not_read(t: Any) -> None:
    for _ in range(5):
        t.append([{"a": 1, "b": "z"}])
    t.snapshot()
    t.append([{"a": 1, "b": "z"}])
    before = t.bucket.counters.as_dict()
    t.scan(limit=1).to_arrow()
    assert t.bucket.counters.since(before)["get"] <= 2


def test_a_table_with_a_key_takes_a_limit_too() -> None:
    table = firn.connect("memory://").create_table("t", key=["a"])
    table.append([{"a": n, "b": n} for n in range(5)])
    table.append([{"a": n, "b": -n} for n in range(3)])
    assert table.scan(limit=4).to_arrow().num_rows == table.scan(limit=4).count() == 4


def test_a_table_tells_its_version(t: Any) -> None:
    assert t.version == t.snapshot().version
    keyed = firn.connect("memory://").create_table("k", kind="keyed")
    with keyed.open() as kv:
        kv.put(b"a", b"1")
        assert keyed.version == keyed.reader().version


def test_transactions_and_readers_say_what_they_are() -> None:
    db = firn.connect("memory://")
    db.create_table("r", kind="records")
    tx = db.begin()
    assert repr(tx) == f"<Transaction {tx.txid[:8]} open>"
    tx.rollback()
    assert "rolled back" in repr(tx)
    keyed = db.create_table("k", kind="keyed")
    with keyed.reader() as reader:
        assert repr(reader).startswith("<KeyedReader memory://k at ")
    assert repr(reader).endswith(" closed>")
