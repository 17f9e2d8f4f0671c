"""A clone's sweep unpinned the parent as soon as the clone named nothing of it any more, so that the parent's next
sweep deleted what snapshots and scans of the clone were still reading."""

from __future__ import annotations

import uuid

import pytest

import firn
from firn.errors import SnapshotTooOldError
from firn.keyed.maintain.alter import sweep_age_s


def test_snapshots_of_a_clone_outlive_its_compaction() -> None:
    db = firn.connect(f"memory://clone-{uuid.uuid4().hex}")
    parent = db.create_table("parent", kind="keyed", properties={"block_cache": 1, "block_size": "256B"})
    with parent.open(compaction=False) as kv:
        kv.write({b"%03d" % n: b"v%d" % n for n in range(200)})
    parent.compact(full=True)
    clone = parent.clone("clone")
    with parent.open(compaction=False) as kv:
        kv.put(b"000", b"new")
    parent.compact(full=True)
    parent.sweep(older_than="0s")  # the pin alone holds what the clone reads

    reader = clone.reader(follow=None)
    with clone.open(compaction=False) as kv, kv.snapshot() as snapshot:
        kv.put(b"k", b"v")
        clone.compact(full=True)
        clone.sweep()
        parent.sweep(older_than="0s")
        assert len(dict(snapshot.scan())) == len(dict(reader.scan())) == 200
        assert snapshot.get(b"007") == b"v7"
    clone.sweep(older_than="0s")
    assert parent.sweep(older_than="0s").ssts, "and goes when its time has come"
    with pytest.raises(SnapshotTooOldError):
        dict(clone.reader(at=reader.version, follow=None).scan())
    assert len(dict(clone.reader().scan())) == 201


def test_an_altered_handle_sweeps_by_what_was_in_force_before() -> None:
    db = firn.connect(f"memory://clone-{uuid.uuid4().hex}")
    table = db.create_table("t", kind="keyed", properties={"l0_min_age": "1h", "poll_max": "1s"})
    with table.open(compaction=False) as kv:
        table.alter(set_properties={"l0_min_age": "10s"})
        manifest = table.view().manifest
        assert sweep_age_s(table, manifest) == sweep_age_s(kv.table, manifest) == 3600.0
