"""Write the golden writers' catalogs in which rows stand: `python tests/format/make_golden_rows.py`.

`ann` commits by claims, `bob` by PUT and LIST, and the beginning of `cyd` is pruned but for the claims of rows.
Together they have rows in transactions, claims, markers and checkpoints, folded ones and ones with soft deletes. What
is there is never written anew. `expected.json` says what each version of each table reads as.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from make_golden import TYPES, VALUES
from make_golden_catalogs import connect
from make_golden_inlined import read

import firn

GOLDEN = Path(__file__).parent / "golden-rows"
INLINE = {"inline": "64KB"}
Told = dict[str, list[tuple[str, list[str]]]]


def make(url: Path) -> Told:
    """All tables, and what their versions read as."""
    ann, bob, cyd = (connect(url, writer) for writer in ("ann", "bob", "cyd"))
    told: Told = {}

    def note(table: firn.LakeTable) -> None:
        told.setdefault(table.name, []).append((table.version, read(table)))

    later = ann.create_table("later", journal="writer", properties=INLINE)
    for n in range(4):
        cyd.table("later").append([{"n": n, "by": "cyd"}])
    later.append([{"n": 4, "by": "ann"}])
    cyd.prune("0s")
    cyd.table("later").delete("n = 3")
    note(later)
    types = ann.create_table("types", journal="writer", properties=INLINE)
    types.append(pa.Table.from_pylist(VALUES, TYPES))
    note(types)
    types.alter(rename={"text": "words"}, add={"more": ("BIGINT", 7)})
    types.append([{"id": 4, "words": "renamed", "more": None}], batch_id="golden/1")
    note(types)
    places = ann.create_table("places", journal="writer", partition_by=["place"], properties=INLINE)
    theirs = bob.table("places")
    for n in range(3):
        places.append([{"place": place, "n": n} for place in ("DTW", "a/b", None, "x" * 300)])
        theirs.append([{"place": "DTW", "n": 10 + n}])
    note(places)
    places.delete("n = 1 AND place = 'DTW'")
    theirs.delete("n = 11")
    note(places)
    ann._writer_tables.federation.checkpoint("places")
    theirs.merge(only="inlined")
    places.append([{"place": "HNL", "n": 4}, {"place": "DTW", "n": 4}])
    places.delete("n = 4 AND place = 'DTW'", soft=False)
    theirs.append([{"place": "HNL", "n": 14}])
    note(places)
    stock = ann.create_table("stock", journal="writer", key=["id"], properties=INLINE)
    stock.upsert([{"id": n, "s": "old"} for n in range(4)])
    bob.table("stock").upsert([{"id": 2, "s": "bob"}, {"id": 7, "s": "bob"}])
    note(stock)
    stock.delete("id = 3")
    with ann.writer_transaction() as transaction:
        transaction.append("stock", [{"id": 1, "s": "first"}])
        transaction.append("stock", [{"id": 1, "s": "second"}])
        transaction.append("places", [{"place": "HNL", "n": 5}, {"place": "HNL", "n": 6}])
        transaction.delete("places", "n = 6")
    note(stock)
    note(places)
    return told


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "db"
        database.mkdir()
        expected = make(database)
        shutil.rmtree(database / ".firn-tmp", ignore_errors=True)
        shutil.copytree(database, GOLDEN / "db")  # fails if it is there
    text = json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / "expected.json").write_text(text, "utf-8")
