"""Write the golden writers' catalogs of this version: `python tests/format/make_golden_catalogs.py`, once for each
release. What is there is never written anew. With a name, like `0.1.0+rebuilt`, it writes those of a change of the
format: `ann` and `bob` have lost a transaction each, and were rebuilt.

Three writers: `ann` commits by claims, `bob` by PUT and LIST, and the beginning of `cyd` is pruned. Together they
have every action and every kind of object: checkpoints and their hint, markers, soft deletes, merges, registered
files, dropped tables, a transaction over tables, batches, keys with versions and deletions, statistics of all types.
`expected.json` says what it reads as, from the rows that went in, not from reading back.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from make_golden import GOLDEN, TYPES, VALUES, complete, shown

import firn

Row = dict[str, Any]
UNCLAIMED = {"conditional_put": "disabled"}


def connect(url: Path | str, writer: str) -> firn.Database:
    """A connection that goes on with a writer by the discipline that it has."""
    return firn.connect(url, writer=writer, options=UNCLAIMED if writer == "bob" else None)


def make(url: Path) -> dict[str, Any]:
    """Write the database; what it is expected to read as."""
    ann, bob, cyd = (connect(url, writer) for writer in ("ann", "bob", "cyd"))
    expected = {
        "delays": _delays(ann, cyd),  # first: nobody can tell what cyd was before its history begins
        "types": _types(ann),
        "flights": _flights(ann, bob, url),
        "stock": _stock(ann, bob),
    }
    _dropped(ann)
    return expected


class _Noted:
    """What a table was at some versions and times."""

    def __init__(self, table: firn.LakeTable) -> None:
        self.table = table
        self.versions: dict[str, list[str]] = {}
        self.times: dict[str, list[str]] = {}

    def note(self, rows: Collection[Row]) -> None:
        snapshot = self.table.snapshot()
        assert snapshot.time is not None
        self.versions[snapshot.version] = self.times[snapshot.time.isoformat()] = shown(list(rows))
        while time.time() * 1000 < snapshot.time_ms + 2:
            time.sleep(0.001)  # what comes is later

    def result(self, now: Collection[Row], **more: Any) -> dict[str, Any]:
        history = sorted((line.version, line.op, line.rows_added) for line in self.table.history())
        return {
            "versions": {**self.versions, "now": shown(list(now))},
            "times": self.times,
            "history": [list(line) for line in history],
            **more,
        }


def _types(ann: firn.Database) -> dict[str, Any]:
    table = ann.create_table("types", journal="writer", sort_by=["id desc"])
    noted = _Noted(table)
    table.append(pa.Table.from_pylist(VALUES, TYPES))
    noted.note(complete(VALUES, TYPES.names))
    table.append([{"id": 4, "later": "a column that came later"}], batch_id="golden/1")
    rows = complete([*VALUES, {"id": 4, "later": "a column that came later"}], [*TYPES.names, "later"])
    schema = {field.name: str(field.type) for field in TYPES} | {"later": "string"}
    return noted.result(rows, schema=schema, batch="golden/1")


def _flights(ann: firn.Database, bob: firn.Database, root: Path) -> dict[str, Any]:
    """Two writers' parts: appended, deleted softly and by rewriting, merged, registered, removed."""
    table = ann.create_table("flights", journal="writer", partition_by=["month(date)", "origin"])
    noted = _Noted(table)

    def day(month: int, day: int, origin: str | None, delay: int) -> Row:
        return {"date": datetime(2001, month, day), "origin": origin, "delay": delay}

    mine = [
        day(month, n, origin, 10 * month + n) for month in (1, 2) for n in (1, 2) for origin in ("DTW", "ö/ä")
    ]
    theirs = [day(month, n, None, -n) for month in (1, 3) for n in (1, 2, 3)]
    table.append(mine)
    bob.table("flights").append(theirs, batch_id="golden/2")
    noted.note([*mine, *theirs])
    table.delete("delay = 12")
    bob.table("flights").delete("delay = -2")
    mine = [row for row in mine if row["delay"] != 12]
    theirs = [row for row in theirs if row["delay"] != -2]
    noted.note([*mine, *theirs])
    late = [day(1, 9, "DTW", 19), day(2, 9, "DTW", 29)]
    table.append(late)
    table.merge()
    mine += late
    table.checkpoint()
    table.delete("delay = 19", soft=False)
    mine = [row for row in mine if row["delay"] != 19]
    noted.note([*mine, *theirs])
    (root / "elsewhere").mkdir()
    registered = day(5, 1, "HNL", 5)
    pq.write_table(pa.Table.from_pylist([registered]), root / "elsewhere/may.parquet")
    table.register("elsewhere/may.parquet")
    bob.table("flights").remove_partitions("date_month = '2001-03'")
    theirs = [row for row in theirs if row["date"].month != 3]
    table.rewrite("delay <> 22")
    mine = [row for row in mine if row["delay"] != 22]
    noted.note([*mine, *theirs, registered])
    table.delete("delay = 29")
    mine = [row for row in mine if row["delay"] != 29]
    return noted.result(
        [*mine, *theirs, registered],
        batch="golden/2",
        partitions=sorted({f"{row['date']:%Y-%m}" for row in [*mine, *theirs, registered]}),
    )


def _stock(ann: firn.Database, bob: firn.Database) -> dict[str, Any]:
    """Versions of rows by both writers; the clock of one of few commits is above all that it has seen."""
    table = ann.create_table(
        "stock",
        journal="writer",
        key=["id"],
        properties={"bloom_filters": ["id"], "delete_retention": "36500d"},
    )
    noted = _Noted(table)
    there = {n: {"id": n, "count": 10} for n in range(40)}
    table.upsert(list(there.values()))
    noted.note(there.values())
    newer = [{"id": n, "count": 20} for n in (1, 2, 1000)]
    table.upsert(newer)
    there.update({row["id"]: row for row in newer})
    table.update("count = 20", {"count": "count + 1"})
    for row in newer:
        there[row["id"]] = {**row, "count": 21}
    noted.note(there.values())
    table.delete("id < 5 AND count = 10")
    there = {n: row for n, row in there.items() if n >= 5 or row["count"] != 10}
    bob.table("stock").upsert([{"id": 2, "count": -1}, {"id": 2000, "count": 5}])
    there |= {2: {"id": 2, "count": -1}, 2000: {"id": 2000, "count": 5}}
    noted.note(there.values())
    table.merge()
    bob.table("stock").merge()
    table.delete_keys([{"id": 7}])
    del there[7]
    return noted.result(there.values(), key=["id"])


def _delays(ann: firn.Database, cyd: firn.Database) -> dict[str, Any]:
    """A transaction over tables, and a writer whose beginning is pruned."""
    for name in ("delays", "notes"):
        ann.create_table(name, journal="writer", schema={"id": "BIGINT", "text": "VARCHAR"})
    mine = [{"id": 1, "text": "a"}, {"id": 2, "text": None}]
    with ann.writer_transaction() as transaction:
        transaction.append("delays", mine)
        transaction.append("notes", mine)
        transaction.delete("delays", "id = 1")
    theirs = [{"id": 10 + n, "text": "cyd"} for n in range(4)]
    table = cyd.table("delays")
    for row in theirs:
        table.append([row])
    cyd.prune("0s")
    table.delete("id = 13")
    return _Noted(ann.table("delays")).result([mine[1], *theirs[:3]], pruned="cyd=1")


def _dropped(ann: firn.Database) -> None:
    ann.create_table("gone", journal="writer").append([{"id": 1}])
    ann.drop_table("gone")
    ann.drop_table("notes")


def make_rebuilt(url: Path) -> dict[str, Any]:
    """The same once two writers lost a transaction and were rebuilt: their last markers have the whole state."""
    expected = make(url)
    for writer in ("ann", "bob"):
        history = sorted((url / writer / "db/transactions").glob("*.transaction"))
        history[-2].unlink()
        assert connect(url, writer).rebuild().rebuilt
    return expected


if __name__ == "__main__":
    name = sys.argv[1] if sys.argv[1:] else firn.__version__
    target = GOLDEN / name / "catalogs"
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "db"
        database.mkdir()
        expected = make(database) if name == firn.__version__ else make_rebuilt(database)
        shutil.rmtree(database / ".firn-tmp", ignore_errors=True)
        shutil.copytree(database, target / "db")  # fails if it is there
    text = json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
    (target / "expected.json").write_text(text, "utf-8")
