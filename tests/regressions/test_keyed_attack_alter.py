"""`alter` by a writer that was fenced raised FencedError, and had changed the table; a property that isn't plain JSON
was a TypeError. Readers had no figures."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

import firn
from firn.errors import FencedError, InvalidInputError


def test_a_fenced_writer_alters_nothing() -> None:
    url = f"memory://alter-{uuid.uuid4().hex}"
    db, other = firn.connect(url), firn.connect(url)
    table = db.create_table("t", kind="keyed")
    kv = table.open(compaction=False)
    with other.table("t").open(compaction=False) as newer:
        with pytest.raises(FencedError):
            table.alter(set_properties={"flush_ms": 13})
        assert not table.view().manifest.definition
        newer.put(b"a", b"1")
    with pytest.raises(FencedError):
        kv.put(b"a", b"2")


def test_properties_are_plain() -> None:
    db = firn.connect(f"memory://alter-{uuid.uuid4().hex}")
    with pytest.raises(InvalidInputError, match="poll_max"):
        db.create_table("t", kind="keyed", properties={"poll_max": timedelta(seconds=5)})
    table = db.create_table("t", kind="keyed", properties={"poll_max": "5s"})
    with table.open(compaction=False), pytest.raises(InvalidInputError, match="as text"):
        table.alter(set_properties={"poll_max": timedelta(seconds=6)})


def test_readers_have_figures() -> None:
    table = firn.connect(f"memory://alter-{uuid.uuid4().hex}").create_table("t", kind="keyed")
    with table.open(compaction=False) as kv, table.reader(follow=None) as reader:
        kv.put(b"a", b"1")
        assert reader.stats().l0 == 0
        reader.refresh()
        assert reader.get(b"a") == b"1"
        before = reader.stats()
        assert (before.l0, before.ssts, before.refreshes, before.version) == (1, 0, 1, reader.version)
        table.compact()
        reader.refresh()
        after = reader.stats()
        assert (after.l0, after.ssts, after.runs, after.refreshes) == (0, 1, 1, 2)
