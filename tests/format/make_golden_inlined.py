"""Write the golden tables whose rows stand partly in logs: `python tests/format/make_golden_inlined.py`.

What is there is never written anew. `expected.json` says what each version of each table reads as.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from make_golden import TYPES, VALUES, complete, shown

import firn

GOLDEN = Path(__file__).parent / "golden-inlined"
INLINE = {"inline": "64KB"}


def make(directory: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """All tables, and what their versions read as."""
    db = firn.connect(directory)
    told: dict[str, list[tuple[str, list[str]]]] = {}

    def note(table: firn.LakeTable) -> None:
        told.setdefault(table.name, []).append((table.version, read(table)))

    types = db.create_table("types", properties=INLINE)
    types.append(pa.Table.from_pylist(VALUES, TYPES))
    note(types)
    types.alter(rename={"text": "words"}, add={"more": ("BIGINT", 7)})
    types.append([{"id": 4, "words": "renamed", "more": None}])
    note(types)
    places = db.create_table("places", partition_by=["place"], properties=INLINE)
    for n in range(3):
        places.append([{"place": place, "n": n} for place in ("DTW", "a/b", None, "x" * 300)])
    places.merge(only="inlined")
    places.append([{"place": "DTW", "n": 4}, {"place": "HNL", "n": 4}])
    note(places)
    places.delete("n = 4 AND place = 'DTW'")
    places.append([{"place": "HNL", "n": 5}])
    note(places)
    stock = db.create_table("stock", key=["id"], version_by="v", properties=INLINE)
    stock.append([{"id": n, "v": n, "s": "old"} for n in range(4)])
    stock.append([{"id": 1, "v": 0, "s": "late"}, {"id": 2, "v": 9, "s": "new"}])
    note(stock)
    stock.delete("id = 3")
    stock.append([{"id": 5, "v": 1, "s": "new"}])
    note(stock)
    return told


def read(table: firn.LakeTable, at: str | None = None) -> list[str]:
    found = table.scan(at=at).to_arrow()
    return shown(complete(found.to_pylist(), found.column_names))


if __name__ == "__main__":
    GOLDEN.mkdir()
    expected = make(GOLDEN / "db")
    text = json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / "expected.json").write_text(text, "utf-8")
