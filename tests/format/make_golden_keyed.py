"""Write the golden keyed tables of this format: `python tests/format/make_golden_keyed.py NAME`, once for each
change of the bytes. What is there is never written anew.

One table of bytes with `add`, one of typed keys and rows; each with flushes of two writers, a compaction, a bulk
load, a checkpoint and flushes on top. `expected.json` says what they hold.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from make_golden import GOLDEN

import firn

TYPED = {"key": {"state": "VARCHAR", "year": "BIGINT"}, "schema": {"flights": "BIGINT", "city": "VARCHAR"}}


def make(root: Path) -> None:
    """Write the tables and what they hold."""
    db = firn.connect(str(root / "db"))
    plain = db.create_table("plain", kind="keyed", merge="add", properties={"block_size": "512B"})
    with plain.open(compaction=False) as kv:
        kv.write({b"key %03d" % n: b"%d" % n for n in range(60)})
        kv.delete(b"key 007")
        kv.merge(b"key 008", b"100")
    plain.compact(full=True)
    plain.load([{"key": b"key %03d" % n, "value": b"7"} for n in range(50, 70)])
    plain.checkpoint("monday")
    with plain.open(compaction=False) as kv:
        kv.merge(b"key 060", b"1")
        kv.put(b"last", b"1")
    typed = db.create_table("typed", kind="keyed", **TYPED)
    with typed.open(compaction=False) as kv:
        for n in range(20):
            kv.put(("MI", n), {"flights": n, "city": f"Köln {n}"}, durable=n % 7 == 0)
    typed.compact()
    with typed.open(compaction=False) as kv:
        kv.delete(("MI", 3))
        kv.put(("HI", 1), {"flights": None, "city": None})
    expected = {
        "plain": [[key.decode(), value.decode()] for key, value in plain.reader().scan()],
        "monday": [[key.decode(), value.decode()] for key, value in plain.reader(at="monday").scan()],
        "typed": [[list(key), row] for key, row in typed.reader().scan()],
    }
    (root / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    make(GOLDEN / "keyed" / sys.argv[1])
