"""Write the golden SSTs of this version: `python tests/format/make_golden_ssts.py`, once for each release. What is
there is never written anew.

Values of bytes, typed values, and a file without filter and compression; typed values with a column of bytes, of
which the footer has no bounds; large values that don't shrink, beside which `seq` is plain and keys have another
codec. They have puts, deletes and merges, entries that expire, and versions of one key over several blocks.
`expected.json` says what went in.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

from make_golden import GOLDEN

import firn
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.writer import SstWriter

COLUMNS = {"flights": "BIGINT", "city": "VARCHAR", "late": "DOUBLE", "open": "BOOLEAN", "codes": "VARCHAR[]"}
SSTS: dict[str, dict[str, Any]] = {
    "bytes": {"columns": None, "compression": "zstd", "bloom_bits": 10},
    "typed": {"columns": COLUMNS, "compression": "lz4", "bloom_bits": 10},
    "plain": {"columns": None, "compression": None, "bloom_bits": 0},
    "blobs": {"columns": {"photo": "BLOB", "flights": "BIGINT"}, "compression": "zstd", "bloom_bits": 10},
    "large": {"columns": None, "compression": "zstd", "bloom_bits": 10},
}


def value_of(stored: Any, values: Values) -> object:
    """A value as a run holds it, out of what JSON holds."""
    if stored is None:
        return None
    if not values.typed:
        return values.check(bytes.fromhex(stored))
    blobs = [name for name, kind in (values.columns or {}).items() if kind == "BLOB"]
    return values.check(stored | {name: bytes.fromhex(stored[name]) for name in blobs})


def rows(name: str, columns: dict[str, str] | None) -> list[list[Any]]:
    """key in hex, seq, kind, expire_at, value: bytes in hex, or a typed row."""
    numbers = itertools.count()

    def value(n: int) -> Any:
        if name == "large":
            number = next(numbers)
            return b"".join(hashlib.sha512(b"%d %d" % (number, part)).digest() for part in range(4)).hex()
        if columns is None:
            return (b"%d" % n * 7).hex()
        row = {
            "photo": (b"%d" % n * 7).hex(),
            "flights": None if n % 5 == 0 else n - 20,
            "city": f"Köln {n}",
            "late": n / 4,
            "open": n % 2 == 0,
            "codes": [None, "x" * (n % 3)][: n % 4],
        }
        return {name: row[name] for name in columns}

    found: list[list[Any]] = [["", 900, PUT, None, value(0)]]
    found.extend(
        [(b"\x00key %03d" % n).hex(), 2**32 + n, PUT, 1_800_000_000_000 + n, value(n)] for n in range(60)
    )
    found.append([b"many".hex(), 2**40, MERGE, 5, value(1)])
    found.extend([b"many".hex(), seq, MERGE, None, value(seq)] for seq in range(50, 1, -1))
    found.append([b"many".hex(), 1, DELETE, None, None])
    found.append(["ffff", 7, PUT, None, value(3)])
    return found


def make(root: Path) -> None:
    """Write the SSTs and what they hold."""
    root.mkdir(parents=True)
    expected = {}
    for name, made in SSTS.items():
        values = Values(made["columns"])
        entries = rows(name, made["columns"])
        writer = SstWriter(
            values.schema, block_bytes=700, compression=made["compression"], bloom_bits=made["bloom_bits"]
        )
        writer.add(
            values.batch(
                Entry(bytes.fromhex(key), seq, kind, expire_at, value_of(stored, values))
                for key, seq, kind, expire_at, stored in entries
            )
        )
        (root / f"{name}.sst").write_bytes(writer.finish().data)
        expected[name] = {"columns": made["columns"], "entries": entries}
    text = json.dumps(expected, ensure_ascii=False)
    (root / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    make(GOLDEN / firn.__version__ / "ssts")
