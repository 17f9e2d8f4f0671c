"""A keyed table on the report's page."""

from __future__ import annotations

import pytest

import firn
from firn.inspect.report.keyed_facts import keyed_facts
from firn.inspect.report.report import render_report
from firn.keyed.table import KeyedTable

HOSTILE = "</script><script>alert(1)</script>&amp;\"'"


@pytest.fixture
def table(db: firn.Database) -> KeyedTable:
    table = db.create_table(
        "delays", kind="keyed", key={"airport": "VARCHAR"}, schema={"flights": "BIGINT"}, merge_operator="add",
        ttl="7d", properties={"flush_ms": 5},
    )  # fmt: skip
    with table.open(compaction=False) as kv:
        for airport in ("ATL", "DTW", HOSTILE):
            kv.merge(airport, {"flights": 1})
    return table


def test_facts(db: firn.Database, table: KeyedTable) -> None:
    fresh = keyed_facts(table)
    assert fresh.entries is None and fresh.flushes == fresh.sorted_runs == 3
    assert [run.title for run in fresh.runs] == ["flushes"]
    table.compact(full=True)
    table.checkpoint("monday", ttl="7d")
    facts = keyed_facts(table)
    assert (facts.entries, facts.flushes, facts.sorted_runs, facts.files) == (3, 0, 1, 1)
    assert facts.table.definition.columns == {"flights": "BIGINT"}
    assert facts.view.pointer.last_compacted_ms is not None
    listed = db.bucket.list("delays/").objects
    assert sum(count for count, _ in facts.stored.values()) == len(listed)
    assert sum(size for _, size in facts.stored.values()) == sum(info.size for info in listed)
    assert facts.stored["live files"] == (1, facts.bytes)


def test_an_empty_table(db: firn.Database) -> None:
    db.create_table("empty", kind="keyed")
    page, names = render_report(db)
    assert names == ["empty"]
    assert "Nobody has opened the table" in page


def test_the_page_shows_what_there_is_and_escapes_it(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint(HOSTILE[:40])
    table.compact()
    db.create_table("lake").append([{"n": 1}])
    page, names = render_report(db)
    assert names == ["delays", "lake"]
    for text in ("level 1, run", "merge operator", "airport", "A get asks up to", "604,800 s"):
        assert text in page, text
    assert "alert(1)</script>" not in page


def test_a_table_that_cant_be_read_doesnt_hide_the_others(db: firn.Database, table: KeyedTable) -> None:
    db.create_table("lake").append([{"n": 1}])
    db.bucket.put(table.journal.layout.pointer_key, b"{}")
    page, _ = render_report(db)
    assert "This table can" in page and 'id="table-lake"' in page
