"""Tables whose writer's catalog is deleted and rebuilt: they hold the same rows, and go on."""

from __future__ import annotations

import datetime as dt

import pytest

import firn
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.history.history import History
from firn.lake.maintain.rebuild import rebuild
from firn.runner import LocalRunner
from rebuilding import facts


def contents(db):
    found = {}
    for name in ("flights", "delays"):
        table = db.table(name)
        rows = table.scan().to_arrow()
        found[name] = rows.schema.to_string(), sorted(map(repr, rows.to_pylist()))
    return found


def without_columns(state):
    return {
        name: (spec, {path: (live[0], *live[2:]) for path, live in files.items()}, batches)
        for name, (spec, files, batches) in facts(state).items()
    }


def lived(db):
    flights = db.create_table("flights", journal="writer", partition_by=["month(date)", "origin"])
    long = "x/" * 150
    for n in range(4):
        date = dt.date(2001, 1 + n % 2, 3)
        rows = [{"date": date, "origin": o, "delay": 10 * n + i} for i, o in enumerate(["DTW", "ö", long])]
        flights.append(rows)
    flights.append([{"date": dt.date(2001, 1, 9), "origin": "DTW", "delay": 1, "note": 0.5}], batch_id="b")
    flights.delete("delay = 31")
    flights.merge()
    flights.delete("delay < 2", soft=False)
    delays = db.create_table("delays", journal="writer", key=["id"])
    delays.append([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    delays.upsert([{"id": 1, "v": "c"}])
    delays.delete("id = 2")
    delays.merge()
    delays.upsert([{"id": 3, "v": "d"}])
    with db.writer_transaction() as tx:
        tx.append("delays", [{"id": 3, "v": "e"}])
        tx.append("flights", [{"date": None, "origin": None, "delay": 5}])
    flights.rewrite("delay <> 20")
    flights.remove_partitions("date_month = '2001-02'")
    flights.delete("delay = 11")
    flights.append([{"date": dt.date(2001, 3, 1), "origin": "DTW", "delay": 77}])


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_deleted_catalog_comes_back_from_its_data_files(tmp_path, claims, checkpointed):
    options = {} if claims else {"options": {"conditional_put": "disabled"}}
    db = firn.connect(str(tmp_path / "prod"), writer="host-17", **options)
    lived(db)
    if checkpointed:
        db.table("flights").checkpoint()
    before, bucket = contents(db), db.bucket
    layout = WriterLayout(db.prefix, "host-17", "prod")
    truth = without_columns(History(bucket, layout).load().state)
    for part in ("transactions", "claims", "_firn"):
        for info in bucket.list(f"{layout.root}/{part}/").objects:
            bucket.delete(info.key)
    report = rebuild(bucket, layout, LocalRunner())
    assert report.damage == ("there is no transaction left",)
    assert len(report.unproven) == 1 and not report.orphans and not report.missing and not report.unreadable
    assert without_columns(History(bucket, layout).load().state) == truth
    again = firn.connect(str(tmp_path / "prod"), writer="host-17", **options)
    assert contents(again) == before
    again.table("flights").append([{"date": None, "origin": "HNL", "delay": 78}])
    again.table("delays").upsert([{"id": 3, "v": "f"}])
    assert again.table("delays").scan(where="id = 3").to_pandas()["v"].tolist() == ["f"]
    assert again.table("flights").merge().files_removed > 0


def test_the_last_merge_of_an_altered_table_doubles_no_row(tmp_path):
    db = firn.connect(tmp_path / "prod", writer="host-17")
    table = db.create_table("t", journal="writer", schema={"id": "BIGINT", "c": "BIGINT"})
    table.append([{"id": 1, "c": 1}])
    table.append([{"id": 2, "c": 2}])
    table.alter(drop=["c"], add={"c": ("BIGINT", -1)})
    assert table.merge().files_removed == 2  # with a marker, that says what the table's columns are called
    for part in ("transactions", "claims"):
        for info in db.bucket.list(f"host-17/prod/{part}/").objects:
            db.bucket.delete(info.key)
    report = firn.connect(tmp_path / "prod", writer="host-17").rebuild()
    assert report.unproven
    rows = firn.connect(tmp_path / "prod").table("t").scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "c": -1}, {"id": 2, "c": -1}]
