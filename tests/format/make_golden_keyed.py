"""Write the golden keyed tables of this format: `python tests/format/make_golden_keyed.py NAME`, once for each
change of the bytes. What is there is never written anew.

One table of bytes with `add`, one of typed keys and rows; each with flushes of two writers, a compaction, a bulk
load, a checkpoint and flushes on top. `expected.json` says what they hold.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from make_golden import GOLDEN

import firn

TYPED = {
    "key": {"state": "VARCHAR", "year": "BIGINT", "fare": "DECIMAL(38,2)", "id": "UUID"},
    "schema": {"flights": "BIGINT", "city": "VARCHAR"},
}


def key(state: str, n: int) -> tuple[Any, ...]:
    """A key of the typed table, with a fare below or above zero and no id at times."""
    return state, n // 4, Decimal(n * 10**33 - 10**34), UUID(int=n * 13 << 120 | n) if n % 5 else None


def make(root: Path) -> None:
    """Write the tables and what they hold."""
    db = firn.connect(str(root / "db"))
    plain = db.create_table("plain", kind="keyed", merge_operator="add", properties={"block_size": "512B"})
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
            kv.put(key("MI", n), {"flights": n, "city": f"Köln {n}"}, durable=n % 7 == 0)
    typed.compact()
    with typed.open(compaction=False) as kv:
        kv.delete(key("MI", 3))
        kv.put(key("HI", 1), {"flights": None, "city": None})
    expected = {
        "plain": [[key.decode(), value.decode()] for key, value in plain.reader().scan()],
        "monday": [[key.decode(), value.decode()] for key, value in plain.reader(at="monday").scan()],
        "typed": [[list(key), row] for key, row in typed.reader().scan()],
    }
    text = json.dumps(expected, ensure_ascii=False, default=str)
    (root / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    make(GOLDEN / "keyed" / sys.argv[1])
