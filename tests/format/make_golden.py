"""Write the golden database of this version: `python tests/format/make_golden.py`, once for each release, and once
more for each table that is added here before it. What is there is never written anew.

It holds what the format has to hold: all types, all kinds of partition values, statistics, columns that came
later, merges, deletes, removals, batches, registered files, a checkpoint, a sweep, keys with versions and deletions,
Bloom filters. `expected.json` says what it reads as, from the rows that went in, not from reading back.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import firn
from firn.journal.leaderless.format import layout

GOLDEN = Path(__file__).parent / "golden"

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("big", pa.uint64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("local", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.int64())),
        ("struct", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)
VALUES: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "tiny": -128,
        "big": 2**64 - 1,
        "real": 0.5,
        "double": -1e300,
        "price": Decimal("1234567.89"),
        "text": "Grüße, 雪",
        "bytes": b"\x00\xff",
        "day": date(1969, 12, 31),
        "clock": time(23, 59, 59, 999999),
        "local": datetime(2001, 1, 14, 21, 55, 0, 1),
        "instant": datetime(2001, 1, 14, 21, 55, tzinfo=timezone.utc),
        "list": [1, None, 3],
        "struct": {"a": 1, "b": "x"},
    },
    {"id": 2},
    {"id": 3, "double": float("nan"), "text": "", "list": [], "struct": {"a": None, "b": None}},
]
PLACES = ["DTW", "a/b", "50 %", "", None, "x" * 300, "naïve"]


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts that compare and that JSON can hold, in an order of their own."""
    return sorted(repr({name: _plain(row[name]) for name in sorted(row)}) for row in rows)


def _plain(value: Any) -> Any:
    """Times as text: libraries differ in which object stands for UTC."""
    return value.isoformat() if isinstance(value, (date, time)) else value


def complete(rows: list[dict[str, Any]], columns: list[str]) -> list[dict[str, Any]]:
    return [{column: row.get(column) for column in columns} for row in rows]


def make(url: str, but: Collection[str] = ()) -> dict[str, Any]:
    """Write the tables of the database, `but` for some; what they are expected to read as."""
    db = firn.connect(url)
    return {name: write(db, Path(url)) for name, write in WRITERS.items() if name not in but}


def _types(db: firn.Database, root: Path) -> dict[str, Any]:
    table = db.create_table("types", sort_by=["id desc"])
    first = table.append(pa.Table.from_pylist(VALUES, TYPES))
    table.append([{"id": 4, "later": "a column that came later"}], batch_id="golden/1")
    columns = [*TYPES.names, "later"]
    return {
        "versions": {
            first.version: shown(complete(VALUES, TYPES.names)),
            "now": shown(complete([*VALUES, {"id": 4, "later": "a column that came later"}], columns)),
        },
        "schema": {field.name: str(field.type) for field in TYPES} | {"later": "string"},
        "batch": "golden/1",
    }


def _places(db: firn.Database, root: Path) -> dict[str, Any]:
    table = db.create_table("places", partition_by=["place", "bucket(4, n)", "truncate(1, place)"])
    rows = [{"place": place, "n": n} for n, place in enumerate(PLACES)]
    table.append(rows)
    return {"versions": {"now": shown(rows)}, "places": PLACES}


def _months(db: firn.Database, root: Path) -> dict[str, Any]:
    table = db.create_table("months", partition_by=["month(time)"], sort_by=["time"])
    rows = [{"time": datetime(2001, month, day), "n": day} for month in (1, 2, 3) for day in (1, 2)]
    (root / "elsewhere").mkdir()
    pq.write_table(
        pa.Table.from_pylist([{"time": datetime(2001, 5, 1), "n": 1}]), root / "elsewhere/may.parquet"
    )
    registered = [{"time": datetime(2001, 5, 1), "n": 1}]
    versions = {table.append(rows).version: shown(rows)}
    table.append(rows)
    versions[table.register("elsewhere/may.parquet").version] = shown(rows * 2 + registered)
    versions[str(table.merge().version)] = shown(rows * 2 + registered)
    table.sweep(older_than="0s")
    versions = {list(versions)[-1]: shown(rows * 2 + registered)}  # the others are swept
    kept = [row for row in rows * 2 if row["n"] != 1 or row["time"].month == 5] + registered
    versions[str(table.delete("n = 1 AND time < '2001-05-01'").version)] = shown(kept)
    kept = [row for row in kept if row["time"].month != 2]
    versions[str(table.remove_partitions("time_month = '2001-02'").version)] = shown(kept)
    table.checkpoint()
    versions["now"] = shown(kept)
    return {
        "versions": versions,
        "partitions": ["2001-01", "2001-03", "2001-05"],
        "history": [commit.op for commit in table.history()],
    }


def _stock(db: firn.Database, root: Path) -> dict[str, Any]:
    table = db.create_table(
        "stock",
        key=["id", "place"],
        partition_by=["bucket(2, place)"],
        properties={"bloom_filters": ["id"], "delete_retention": "36500d"},
    )
    there = {
        (n, place): {"id": n, "place": place, "count": 10} for n in range(50) for place in ("north", "south")
    }
    versions: dict[str, list[str]] = {}

    def note(version: str | None) -> None:
        versions[str(version)] = shown(list(there.values()))

    note(table.upsert(list(there.values())).version)
    newer = [{"id": n, "place": "north", "count": 20} for n in (1, 2, 1000)]
    there.update({(row["id"], row["place"]): row for row in newer})
    note(table.upsert(newer, batch_id="golden/2").version)
    for key, row in there.items():
        if row["count"] == 20:
            there[key] = {**row, "count": 21}
    note(table.update("count = 20", {"count": "count + 1"}).version)
    there = {key: row for key, row in there.items() if key[0] >= 5}
    note(table.delete("id < 5").version)
    note(table.merge().version)
    del there[7, "south"]
    note(table.delete_keys([{"id": 7, "place": "south"}]).version)
    there[3, "north"] = {"id": 3, "place": "north", "count": 1}
    note(table.upsert([there[3, "north"]]).version)
    table.checkpoint()
    note("now")
    return {"versions": versions, "key": ["id", "place"], "version_by": None}


def _readings(db: firn.Database, root: Path) -> dict[str, Any]:
    table = db.create_table("readings", key=["sensor"], version_by="measured")
    rows = [{"sensor": name, "measured": 20, "value": 1.5} for name in "abc"]
    first = table.upsert(rows).version
    table.upsert(
        [{"sensor": "a", "measured": 10, "value": 0.5}, {"sensor": "b", "measured": 30, "value": 2.5}]
    )
    rows[1] = {"sensor": "b", "measured": 30, "value": 2.5}
    second = table.snapshot().version
    table.delete_keys([{"sensor": "a", "measured": 15}, {"sensor": "c", "measured": 25}])
    return {
        "versions": {
            first: shown([{"sensor": name, "measured": 20, "value": 1.5} for name in "abc"]),
            second: shown(rows),
            "now": shown(rows[:2]),
        },
        "key": ["sensor"],
        "version_by": "measured",
    }


def _sealed(db: firn.Database, root: Path) -> dict[str, Any]:
    """Every object that a flipped bit may hit has a checksum of all of itself, and a lost file was let go."""
    table = db.create_table("sealed", partition_by=["place"])
    rows = [{"place": place, "n": n} for n in range(3) for place in "ab"]
    versions = {table.append(rows, batch_id="golden/3").version: shown(rows)}
    table.append([{"place": "a", "n": 9}])
    (lost,) = table.scan(where="n = 9").files()
    table.bucket.delete(lost.path)
    versions[str(table.forget_files(lost.path).version)] = shown(rows)
    table.merge()
    table.sweep(older_than="0s")
    kept = [row for row in rows if row["n"] != 1]
    versions = {str(table.delete("n = 1").version): shown(kept), "now": shown(kept)}
    table.checkpoint()
    return {"versions": versions, "history": [commit.op for commit in table.history()]}


WRITERS: Mapping[str, Callable[[firn.Database, Path], dict[str, Any]]] = {
    "types": _types,
    "places": _places,
    "months": _months,
    "stock": _stock,
    "readings": _readings,
    "sealed": _sealed,
}


if __name__ == "__main__":
    target = GOLDEN / firn.__version__
    notes = target / "expected.json"
    there = json.loads(notes.read_text("utf-8")) if notes.exists() else {}
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "db"
        database.mkdir()
        with mock.patch.object(layout, "_host", return_value="golden"):
            expected = make(str(database), there)
        shutil.rmtree(database / ".firn-tmp", ignore_errors=True)
        for added in database.iterdir():
            shutil.copytree(added, target / "db" / added.name)  # fails if it is there
    notes.write_text(json.dumps({**there, **expected}, indent=1, ensure_ascii=False) + "\n", "utf-8")
