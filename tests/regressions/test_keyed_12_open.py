"""The indices of L0 were fetched by the first read alone, and the pointer's settings lacked the schema and how often
a writer looks at the pointer."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

import firn


def test_keyed_12_l0_indices_come_while_nobody_reads(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        for n in range(5):
            kv.put(b"%d" % n, b"v")
    del kv, table
    table = firn.connect(tmp_path).table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        kv.put(b"new", b"v", durable=False)
        assert kv._loader is not None
        while not all(reader.is_open for _, reader in kv._at.l0):
            threading.Event().wait(0.001)
        assert kv.get(b"3") == kv.get(b"new") == b"v"


def test_keyed_12_a_damaged_flush_fails_the_reads_that_need_it(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        kv.put(b"a", b"v")
    del kv, table
    (info,) = db.bucket.list("t/l0/").objects
    gc.collect()
    db.bucket.put(info.key, b"damaged" * 99)
    with firn.connect(tmp_path).table("t", kind="keyed").open(compaction=False) as kv:
        kv.put(b"b", b"v")
        with pytest.raises(firn.CorruptObjectError, match="l0"):
            kv.get(b"a")


def test_keyed_12_the_pointer_tells_schema_and_refresh() -> None:
    table = firn.connect("memory://").create_table(
        "t", kind="keyed", key={"state": "VARCHAR"}, schema={"n": "BIGINT"}, properties={"poll_max": "6s"}
    )
    settings = table.view().pointer.settings
    assert settings["writer_epoch_refresh_ms"] == 2000
    assert settings["schema"] == {"key": [["state", "VARCHAR"]], "columns": [["n", "BIGINT"]]}
