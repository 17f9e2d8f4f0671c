"""The table of advice: keyed tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from advice import advises
from unit.cli_runs import done, run


@pytest.fixture
def db() -> firn.Database:
    return firn.connect("memory://")


def test_a_stale_handle_is_replaced(db):
    reader = db.create_table("t", kind="keyed").reader(follow="0s")
    db.drop_table("t")
    db.create_table("t", kind="keyed")
    with advises("Get the table anew with db.table().", names="current_manifest"):
        reader.get(b"a")
    assert db.table("t", kind="keyed").reader().get(b"a") is None


def test_a_table_without_a_writer_here_is_altered_by_fencing(tmp_path: Path):
    url = str(tmp_path)
    table = firn.connect(url).create_table("t", kind="keyed")
    with advises("or with fence=True, in the shell `firn alter --fence`, which ends", names="t"):
        table.alter(set_properties={"flush_ms": 20})
    assert run("alter", f"{url}/t", "--set", "flush_ms=20").code != 0
    done("alter", f"{url}/t", "--set", "flush_ms=20", "--fence")
    assert table.as_in(table.view()).settings.flush_ms == 20
    with pytest.raises(firn.FencedError), table.open(compaction=False) as kv:
        done("alter", f"{url}/t", "--unset", "flush_ms", "--fence")
        kv.poll()


def test_other_kinds_have_nothing_to_fence(tmp_path: Path):
    url = str(tmp_path)
    firn.connect(url).create_table("t")
    refused = run("alter", f"{url}/t", "--set", "codec=lz4", "--fence")
    assert refused.code != 0 and "leave --fence out" in refused.err
    done("alter", f"{url}/t", "--set", "codec=lz4")
