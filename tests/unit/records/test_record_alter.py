"""`alter` of record tables: a commit of its own, or a swap of the definition; seen by all, and refused by 0.1."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

import firn
from firn.bucket import open_bucket
from firn.journal.sequence import Horizon, codec, truncate


@pytest.fixture
def url():
    return f"memory://{uuid.uuid4().hex}"


def test_a_property_counts_for_all_who_begin_later(url):
    table = firn.connect(url).create_table("t", kind="records")
    other = firn.connect(url).table("t")
    other.upsert("early", {"text": "x" * 500})
    result = table.alter(set_properties={"inline": "100B"})
    assert result.changes == ("set inline = 100B",)
    assert int(result.version) == 3
    other.upsert("late", {"text": "x" * 500})
    bodies = open_bucket(url).list("_firn/bodies/").objects
    assert len(bodies) == 1
    assert {row.id for row in firn.connect(url).table("t").scan()} == {"early", "late"}
    table.alter(set_properties={"inline": None})
    other.upsert("last", {"text": "x" * 500})
    assert len(open_bucket(url).list("_firn/bodies/").objects) == 1


def test_what_changes_nothing_commits_nothing(url):
    table = firn.connect(url).create_table("t", kind="records", properties={"inline": "1MB"})
    before = table.session.store.log.refresh().number
    assert table.alter(set_properties={"inline": "1MB"}).changes == ()
    assert table.alter(set_properties={"inline": "2MB"}, dry_run=True).changes == ("set inline = 2MB",)
    assert table.session.store.log.refresh().number == before


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_what_cannot_be_is_refused_before_anything_is_written(url, isolation):
    table = firn.connect(url).create_table("t", kind="records", isolation=isolation)
    before = open_bucket(url).list("").objects
    with pytest.raises(firn.InvalidInputError, match="unknown table property 'codec'"):
        table.alter(set_properties={"codec": "zstd"})
    with pytest.raises(firn.InvalidInputError):
        table.alter(set_properties={"inline": "much"})
    assert [info.key for info in open_bucket(url).list("").objects] == [info.key for info in before]


def test_a_dropped_table_is_not_altered(url):
    db = firn.connect(url)
    table = db.create_table("t", kind="records")
    db.drop_table("t")
    with pytest.raises(firn.TableNotFoundError):
        table.alter(set_properties={"inline": "1MB"})
    db.create_table("t", kind="records")
    with pytest.raises(firn.TableNotFoundError, match="another by now"):
        table.alter(set_properties={"inline": "1MB"})


def test_that_record_and_all_later_ones_need_the_feature(url, monkeypatch):
    db = firn.connect(url)
    table = db.create_table("t", kind="records")
    table.alter(set_properties={"inline": "1MB"})
    table.upsert("a", {})
    log = table.session.store.log
    needs = [
        b'"features":["definition"]' in open_bucket(url).get(log.store.layout.record_key(n)).data
        for n in (1, 2, 3)
    ]
    assert needs == [False, True, True]
    monkeypatch.setattr(codec, "_ENVELOPES", replace(codec._ENVELOPES, features=frozenset({"catalog"})))
    with pytest.raises(firn.UnsupportedError, match="'definition'"):
        firn.connect(url).table("t").get("a")


def test_it_outlives_truncation(url):
    table = firn.connect(url).create_table("t", kind="records")
    table.alter(set_properties={"inline": "1MB"})
    for n in range(3):
        table.upsert("a", {"n": n})
    store = table.session.store
    firn.connect(url).table("t").sweep("0s", "0s")
    store.log.store.raise_horizon(Horizon(horizon=4, applied=5))
    truncate(store.log)
    opened = firn.connect(url).table("t").session.store
    assert opened.table("t", opened.log.refresh().catalog).inline == 1 << 20


def test_a_table_of_single_rows_swaps_its_definition(url):
    table = firn.connect(url).create_table("t", kind="records", isolation="row")
    result = table.alter(set_properties={"inline": "1MB"})
    assert (result.version, result.changes) == ("1", ("set inline = 1MB",))
    now = firn.connect(url).table("t").definition
    assert (now.properties, now.rev) == ({"inline": "1MB"}, 1)
    assert table.alter(set_properties={"inline": None}).version == "2"
    assert firn.connect(url).table("t").definition.properties == {}
    table.upsert("a", {"n": 1})


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_awaited(url, isolation):
    import asyncio

    table = firn.connect(url).create_table("t", kind="records", isolation=isolation)
    result = asyncio.run(table.aio.alter(set_properties={"inline": "1MB"}))
    assert result.changes == ("set inline = 1MB",)
