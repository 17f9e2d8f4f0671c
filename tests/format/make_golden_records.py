"""Write the golden record tables of this version: `python tests/format/make_golden_records.py`, once for each
release. What is there is never written anew.

A database in one file: rows of several versions, a deleted row, names and values that are hashed, a staged document,
values of all kinds in indices, a unique index, one that was dropped and made again, single rows, a table that was
dropped and made again, a pack, a horizon, and commits that aren't applied; and what is read of it.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

from make_golden import GOLDEN

import firn
from firn.bucket import open_bucket
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.journal.sequence import Horizon, truncate
from firn.records.apply.apply import settle

CATALOG, MANY = "0.1.0+catalog", 12
"""The version whose records refer to one another's catalogs (feature `catalog`); how many tables make one large."""

EACH = "0.1.0+each"
"""The version with an index of the elements of lists (feature `each`)."""
TAGS = (None, "", "sea", "x" * 300, 7, 7.5, True)

ALTERED = "0.1.0+altered"
"""The version with tables whose columns and JSON schemas were altered (feature `definition`)."""

COLUMNS = {
    "text": "VARCHAR",
    "n": "BIGINT",
    "x": "DOUBLE",
    "on": "BOOLEAN",
    "at": "TIMESTAMP WITH TIME ZONE",
    "day": "DATE",
    "price": "DECIMAL(9,2)",
    "raw": "BLOB",
}
TEXTS = (None, "", "Ann Arbor", "E\u0301va", "x" * 300, "a/b..%~", "!", "é")


def typed() -> dict[str, dict[str, Any]]:
    return {
        f"row {n}": {
            "text": text,
            "n": None if n == 5 else (n - 3) * 2**40,
            "x": (n - 3) / 4,
            "on": n % 2 == 0,
            "at": dt.datetime(2026, 1, 1, n, tzinfo=dt.timezone.utc),
            "day": dt.date(1969, 12, 29) + dt.timedelta(days=n),
            "price": Decimal(n - 3) / 4,
            "raw": bytes([n, 255]),
        }
        for n, text in enumerate(TEXTS)
    }


def make(path: Path, *, many: int = 0, each: bool = False, altered: bool = False) -> None:
    """Write the database's objects and what they hold; with `many` tables more, so that its catalog is large, one
    that has indices of elements, or some that were altered."""
    url = f"memory://{uuid.uuid4().hex}"
    bucket = open_bucket(url)
    made = RecordTables(bucket, "", "golden", background=False)

    def create(name: str, **options: Any) -> Any:
        return made.create(made.describe(name, RecordOptions(**options)))

    def drop(table: Any) -> None:
        made.drop(table.definition)

    store = made.session.store
    for n in range(many):
        create(f"many{n}", indices=["a field of some length", "another one"])
    if each:
        tagged = create("tagged", indices=[firn.Index("tags", each=True)])
        tagged.insert_many({f"row {n}": {"tags": [*TAGS[:n], *TAGS[:n]], "keys": [n]} for n in range(8)})
        tagged.update("row 1", {"tags": ["sea", 7], "keys": [1, "one"]})
        tagged.create_index("keys", unique=True, each=True)
    if altered:
        for name, isolation in (("changed", "snapshot"), ("alone", "row")):
            table = create(name, schema={"n": "TINYINT", "x": "DATE", "old": "VARCHAR"}, isolation=isolation)
            table.insert("before", {"n": 1, "x": dt.date(2026, 1, 31), "old": "gone"})
            table.alter(
                add={"new": "BIGINT[]"},
                drop=["old"],
                types={"n": "DECIMAL(5,2)", "x": "VARCHAR"},
                comment=name,
            )
            table.insert("after", {"n": Decimal("1.5"), "x": "?", "new": [1]})
        create("judged").alter(schema={"required": ["n"]}, set_properties={"inline": "1MB"})
    gone = create("people", indices=["city"])
    gone.insert("ada", {"city": "Atlantis"})
    drop(gone)
    people = create(
        "people", indices=["city", firn.Index("email", unique=True)], properties={"inline": "100B"}
    )
    people.create_index("n")
    people.drop_index("n")
    people.create_index("n")
    for id, document in {
        "ada": {"city": "London", "email": "ada@example.com", "n": 1},
        "bob/2": {"city": "Oslo", "email": None, "n": 1},
        "../é" * 60: {"city": "Oslo", "tags": [1, {"deep": None}], "n": 2.5},
        "cyd": {"city": "y" * 300, "text": "large " * 50},
    }.items():
        people.insert(id, document)
    people.update("ada", {"city": "Ockham", "email": "ada@example.com", "n": 2})
    people.delete("bob/2")
    create("typed", schema=COLUMNS, indices=list(COLUMNS))
    with made.session.begin() as tx:
        for id, document in typed().items():
            tx.insert("typed", id, document)
    visits = create("visits", isolation="row", schema={"type": "object", "required": ["n"]})
    etag = visits.insert("page", {"n": 1})
    visits.update("page", {"n": 2}, etag=etag)
    visits.insert("gone", {"n": 1})
    visits.delete("gone")
    settle(store)
    store.log.store.raise_horizon(Horizon(horizon=8 + many + 5 * each + 7 * altered))
    truncate(store.log)
    people.update("cyd", {"city": "Rome", "n": 7})
    people.insert("dee", {"city": "Oslo", "email": "dee@example.com"})
    objects = {info.key: bucket.get(info.key).data.decode() for info in bucket.list("").objects}
    golden = {"objects": objects, "expected": read(url)}
    path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", "utf-8")


def open_golden(path: Path) -> tuple[str, dict[str, Any]]:
    """The URL of a bucket with a golden database's objects, and what is to be read of it."""
    golden = json.loads(path.read_text("utf-8"))
    url = f"memory://{uuid.uuid4().hex}"
    open_bucket(url).put_many([(key, data.encode()) for key, data in golden["objects"].items()])
    return url, golden["expected"]


def read(url: str) -> dict[str, Any]:
    """What any version reads of it, as JSON."""
    made = RecordTables(open_bucket(url), "", "golden", background=False)
    db = firn.connect(url)
    log = made.session.store.log
    tx = made.session.begin()
    head = log.head()

    def plain(table: str, rows: Any) -> dict[str, Any]:
        documents = db.table(table).definition.documents
        return {row.id: documents.to_json(row.document) for row in rows}

    finds = {
        f"{field}={value}": sorted(row.id for row in tx.find("people", {field: value}))
        for field, value in [
            ("city", "Oslo"),
            ("city", "Ockham"),
            ("city", "London"),
            ("city", "y" * 300),
            ("n", 2),
        ]
    }
    for field in COLUMNS:
        for id, document in typed().items():
            finds[f"{field} of {id}"] = sorted(row.id for row in tx.find("typed", {field: document[field]}))
    if "tagged" in db.tables("records"):
        for tag in TAGS:
            found = tx.find("tagged", tags=firn.Contains(tag))
            finds[f"tagged {tag}"] = sorted(row.id for row in found)
        finds["key one"] = [row.id for row in tx.find("tagged", keys=firn.Contains("one"))]
    horizon = log.store.horizon()
    altered = [name for name in ("alone", "changed", "judged") if name in db.tables("records")]
    more = {"altered": {name: plain(name, db.table(name).scan()) for name in altered}} if altered else {}
    return {
        **more,
        "tables": {name: name in db.tables("records") for name in ("people", "typed", "visits")},
        "rows": {name: plain(name, tx.scan(name)) for name in ("people", "typed")},
        "single rows": plain("visits", db.table("visits").scan()),
        "etags": {row.id: row.etag for row in tx.scan("people")},
        "finds": finds,
        "horizon": [horizon.horizon, horizon.lo, horizon.applied],
        "commits": [
            [
                record.number,
                [[write.table, write.id, write.deletes] for m in record.group for write in m.writes],
            ]
            for record in log.records(0, head.number)
        ],
        "indices": {
            table: {
                name: [index.unique, index.stage, index.built, index.ready, index.generation]
                + ["each"] * index.each
                for name, index in sorted(state.fields.items())
            }
            for table, state in sorted(head.catalog.items())
        },
    }


if __name__ == "__main__":
    make(GOLDEN / firn.__version__ / "records.json")
    (GOLDEN / CATALOG).mkdir(exist_ok=True)
    make(GOLDEN / CATALOG / "records.json", many=MANY)
    (GOLDEN / EACH).mkdir(exist_ok=True)
    make(GOLDEN / EACH / "records.json", each=True)
    (GOLDEN / ALTERED).mkdir(exist_ok=True)
    make(GOLDEN / ALTERED / "records.json", altered=True)
