"""The table of advice: lake tables and the leaderless log."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import firn
from advice import advises
from firn.journal.leaderless.format.codec import decode, encode
from firn.journal.model import Commit, SoftDelete
from firn.journal.writer.format.metadata import read_metadata
from firn.lake.maintain.rebuild import restored_file
from firn.lake.parquet.footer import read_footer
from firn.lake.write.write import WriteSpec, write_batches
from firn.runner import InProcess
from regressions.test_lake_01_conflicting_types import race, rows

ROWS = [{"origin": "DTW", "delay": 66}, {"origin": "HNL", "delay": 95}]


def test_a_name_that_is_taken_is_opened(db):
    db.create_table("flights").append(ROWS)
    with advises("is a table already. Open it with db.table(", names="flights"):
        db.create_table("flights")
    assert db.table("flights").scan().count() == 2


def test_partitions_names_the_partitions(db):
    table = db.create_table("flights", partition_by=["origin"])
    table.append(ROWS)
    with advises("see partitions() for those it has", names=["flights", "LAX"]):
        table.remove_partitions([{"origin": "LAX"}])
    assert table.remove_partitions(table.partitions()[:1]).files_removed == 1


def test_history_names_a_version_to_restore(db):
    table = db.create_table("flights")
    table.append(ROWS)
    table.append(ROWS)
    with advises("restore needs a version or a time; see history()", names="restore"):
        table.restore(None)
    table.restore(table.history()[0].version)
    assert table.scan().count() == 2


def test_history_names_a_version_to_scan(db):
    table = db.create_table("flights")
    table.append(ROWS)
    with advises("Pass a version as history() shows it", names="at=1"):
        table.scan(at=1).count()
    assert table.scan(at=table.history()[0].version).count() == 2


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_history_names_versions_where_one_isnt_there(journal):
    table = firn.connect("memory://", writer="w").create_table("flights", journal=journal)
    table.append(ROWS)
    table.append(ROWS)
    with advises("Name a later time, or a version that history() or `firn log` shows", names="flights"):
        table.restore("2001-01-01")
    if journal == "leaderless":
        with advises("history() and `firn log` show them all", names=["flights", table.history()[0].version]):
            table.restore("1000000000000_nohost-ffffffffffffffff")
    table.restore(table.history()[-2].version)
    assert table.scan().count() == 2


def test_expire_is_told_an_age(db):
    table = db.create_table("flights", schema={"date": "DATE"}, partition_by=["day(date)"])
    table.append([{"date": date(2001, 1, 1)}])
    with advises("has no retention; pass expire(older_than='90d')", names="flights"):
        table.expire()
    assert table.expire(older_than="90d").files_removed == 1


def test_rows_without_a_partition_of_time_are_deleted(db):
    table = db.create_table("flights")
    table.append(ROWS)
    with advises("so its partitions have no age. Use delete(where) instead", names="flights"):
        table.expire(older_than="90d")
    table.delete("delay > 70")
    assert table.scan().count() == 1


def test_rows_are_deleted_at_once_where_soft_deletes_cant_be(db):
    table = db.create_table("flights")
    table.append(ROWS)
    with advises("Use delete(where, soft=False), which rewrites", names="flights"):
        table.delete("delay > 70", soft=True)
    table.delete("delay > 70", soft=False)
    assert table.scan().count() == 1


def test_a_predicate_that_no_soft_delete_keeps_is_written_otherwise():
    table = firn.connect("memory://", writer="w").create_table("flights", journal="writer")
    table.append(ROWS)
    for instead, soft in (("delay IN [66]", True), ("delay = ANY([95])", False)):
        with advises(
            "write IN […] or NOT IN […], or use delete(where, soft=False), which rewrites", names="ANY"
        ):
            table.delete("delay = ANY([66])", soft=True)
        table.delete(instead, soft=soft)


def test_merge_makes_files_that_other_engines_read():
    table = firn.connect("memory://", writer="w").create_table("flights", journal="writer")
    table.append(ROWS)
    table.delete("delay > 70", soft=True)
    with advises("Call merge() first, or read through Firn", names=["flights", ".parquet"]):
        table.scan().uris()
    table.merge()
    assert len(table.scan().uris()) == 1


def test_rows_of_logs_become_files_that_other_engines_read():
    table = firn.connect("memory://").create_table("flights", properties={"inline": "64KB"})
    table.append(ROWS)
    with advises(
        "Call merge(only='inlined') first, which writes them into files", names=["flights", "2 rows"]
    ):
        table.scan().uris()
    for options in ({"query": "SELECT * FROM source_files"}, {"respec": True}):
        with advises(
            "merge(only='inlined') writes rows of logs as they are: leave query and respec out",
            names="inlined",
        ):
            table.merge(only="inlined", **options)
    table.merge(only="inlined")
    assert len(table.scan().uris()) == 1


def test_a_lost_file_is_let_go(tmp_path):
    url = tmp_path / "flights"
    table = firn.connect(tmp_path).create_table("flights")
    table.append(ROWS)
    table.append(ROWS)
    lost = table.snapshot().files[0].path
    table.bucket.delete(lost)
    with advises("by forget_files([", names=lost) as advice:
        table.scan().to_arrow()
    assert "1 file with 2 rows" in advice.follow(TABLE=url).out
    assert table.scan().to_arrow().num_rows == 2


def test_a_damaged_file_is_copied_back_or_let_go(db):
    table = db.create_table("flights")
    table.append(ROWS)
    damaged = table.snapshot().files[0].path
    body = table.bucket.get(damaged).data
    for follow in (lambda: table.bucket.put(damaged, body), lambda: table.forget_files([damaged])):
        table.bucket.put(damaged, body[:-1])
        with advises("copy the object back from a backup or an older version of it", names=damaged):
            table.rewrite("delay < 70")
        with advises("Or let it go, with its rows, by forget_files([", names=damaged):
            table.scan().to_arrow()
        follow()
        table.scan().to_arrow()
    assert table.snapshot().files == ()


def test_a_file_that_can_be_read_is_not_let_go(db):
    table = db.create_table("flights")
    table.append(ROWS)
    (file,) = table.snapshot().files
    with advises("aren't wanted go by delete(where)", names=[file.path, "flights"]):
        table.forget_files(file.path)
    table.delete("delay > 70")
    assert table.scan().count() == 1


def test_a_version_whose_files_were_swept_is_read_newer(db):
    table = db.create_table("flights")
    table.append(ROWS)
    past = table.scan(at=table.history()[0].version)
    assert past.count() == 2
    table.overwrite(ROWS[:1])
    table.sweep(older_than="0s")
    with advises("Read a newer version, or keep old ones", names=["flights", ".parquet"]):
        past.to_arrow()
    assert table.scan().to_arrow().num_rows == 1


def test_a_lost_definition_is_mended(tmp_path):
    db = firn.connect(tmp_path)
    db.create_table("stock", key=["id"]).upsert([{"id": 1}])
    key = "stock/_firn/table.json"
    body = db.bucket.get(key).data
    db.bucket.put(key, body[:-9])
    with advises("writes it anew from the copy in its log; or copy it back", names=key) as advice:
        db.table("stock")
    advice.follow(TABLE=tmp_path / "stock")
    assert db.table("stock").scan().count() == 1
    db.bucket.delete(key)
    with advises("log; or copy it back from a backup", names=key) as advice:
        db.table("stock").scan().count()
    advice.follow(TABLE=tmp_path / "stock")
    assert db.bucket.get(key).data == body


def test_a_definition_without_a_copy_is_said_anew(db):
    marker = b'{"v":1,"sch":1,"f":2,"t":1795224444056}\n{"n":"BIGINT"}'
    db.bucket.put("t/_log/1795224444056_host.jsonl", marker)
    with advises("say what it was by create_table(", names="t/_firn/table.json"):
        db.mend_table("t")
    db.create_table("t", sort_by=["n"])
    assert db.table("t").context.definition.sort_by == ("n",)


def test_a_key_has_to_be_said_anew(db):
    db.create_table("stock", key=["id"]).upsert([{"id": 1}, {"id": 2}])
    db.bucket.delete("stock/_firn/table.json")
    with advises("give key= (and version_by=) as the table had it", names="stock"):
        db.create_table("stock")
    db.create_table("stock", key=["id"]).upsert([{"id": 2}])
    assert db.table("stock").scan().count() == 2


def test_what_has_no_log_is_copied_back(db):
    db.create_table("stock")
    db.bucket.put("stock/_data/part-0.parquet", b"of an append that never ended")
    key = "stock/_firn/table.json"
    body = db.bucket.get(key).data
    db.bucket.put(key, body[:-9])
    with advises("so nothing tells how", names=key):
        db.mend_table("stock")
    db.bucket.put(key, body)
    assert db.mend_table("stock").objects == ()


def test_a_damaged_record_of_sweeps_is_mended(tmp_path):
    db = firn.connect(tmp_path)
    table = db.create_table("flights")
    table.append(ROWS)
    table.overwrite(ROWS)
    table.sweep(older_than="0s")
    key = "flights/_firn/sweep.json"
    db.bucket.put(key, db.bucket.get(key).data[:-1])
    with advises("writes it anew; versions before the newest merge", names=key) as advice:
        table.scan(at=table.snapshot().version).count()
    advice.follow(TABLE=tmp_path / "flights")
    assert table.scan(at=table.snapshot().version).count() == 2


@pytest.mark.parametrize("cut", [3, 200])
def test_a_damaged_log_is_copied_back(db, cut):
    table = db.create_table("flights")
    table.append(ROWS)
    (info,) = db.bucket.list("flights/_log/").objects
    body = db.bucket.get(info.key).data
    db.bucket.put(info.key, body[:-cut])
    with advises("Copy it back from a backup or an older object", names=info.key):
        db.table("flights").scan().count()
    db.bucket.put(info.key, body)
    assert db.table("flights").scan().count() == 2


def test_a_damaged_log_that_no_backup_has_is_let_go(tmp_path):
    db = firn.connect(tmp_path)
    table = db.create_table("flights")
    table.append(ROWS)
    key = f"flights/_log/{table.append(ROWS).version}.jsonl"
    db.bucket.put(key, db.bucket.get(key).data[:-3])
    with advises("sees what other objects know of it", names=key):
        db.table("flights").scan().count()
    with advises("or let it go, with what it added, replaced or removed, by ", names=key) as advice:
        db.mend_table("flights")
    advice.follow(TABLE=tmp_path / "flights")
    assert db.table("flights").scan().count() == 2


def test_a_damaged_claim_is_deleted_and_the_batch_appended_again(db):
    table = db.create_table("flights")
    table.append(ROWS, batch_id="b")
    (info,) = db.bucket.list("flights/_firn/batches/").objects
    db.bucket.put(info.key, b"{")
    with advises("doesn't show that the batch was appended", names=info.key):
        table.append(ROWS, batch_id="b")
    assert [line.op for line in table.history()] == ["append"]  # so it was: nothing to be done
    (log,) = db.bucket.list("flights/_log/").objects
    db.bucket.delete(log.key)
    db.bucket.delete(info.key)
    table.append(ROWS, batch_id="b")
    assert db.table("flights").scan().count() == 2


def test_a_damaged_lock_is_deleted(db):
    table = db.create_table("flights")
    table.append(ROWS)
    db.bucket.put("flights/_firn/lock.json", b"{}")
    with advises("Make sure that no maintenance runs, then delete it", names="lock.json"):
        table.delete("delay > 70")
    db.bucket.delete("flights/_firn/lock.json")
    table.delete("delay > 70")
    assert table.scan().count() == 1


def test_a_lock_from_outside_takes_the_place_of_conditional_puts(tmp_path):
    options = {"conditional_put": "disabled"}
    table = firn.connect(tmp_path / "db", options=options).create_table("flights")
    table.append(ROWS)
    with advises("Pass one: firn.connect(url, lock=firn.FileLock(directory))", names="flights"):
        table.merge()
    lock = firn.FileLock(tmp_path / "locks")
    table = firn.connect(tmp_path / "db", options=options, lock=lock).table("flights")
    assert table.delete("delay > 70").rows_deleted == 1


def test_a_query_selects_the_column_of_the_partitions(db):
    table = db.create_table("flights", partition_by=["origin"])
    table.append(ROWS)
    with advises("select it too, or NULL AS ", names="origin"):
        table.rewrite("SELECT delay FROM _rows")
    table.rewrite("SELECT delay, NULL AS origin FROM _rows")
    assert table.scan(where="origin IS NULL").count() == 2


def test_a_key_that_would_move_is_cast(db):
    table = db.create_table("flights", key=["id"], partition_by=["bucket(4, id)"])
    table.upsert(pa.table({"id": pa.array([1, 2], pa.int64())}))
    rows = pa.table({"id": pa.array([2, 3], pa.uint64())})
    with advises("Cast the column to ", names=["flights", "id"]):
        table.upsert(rows)
    table.upsert(rows.cast(pa.schema({"id": pa.int64()})))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_partitions_under_two_types_are_rewritten(db):
    table = db.create_table("flights", partition_by=["delay"])
    table.append(ROWS)
    table.append([{"delay": Decimal("66.50")}])
    with advises(" first: it deals all rows out anew.", names=["flights", "delay"]):
        table.overwrite([{"delay": 66}], partitions="touched")
    table.rewrite("SELECT * FROM _rows")
    table.overwrite([{"delay": 66}], partitions="touched")
    assert table.scan(where="delay = 66").count() == 1
    assert table.scan().count() == 3


def test_a_sort_order_is_corrected_before_the_first_rows(db):
    for follow in (
        {"sort_by": ["delay"]},
        {"sort_by": ["delya"], "schema": {"origin": "VARCHAR", "delya": "BIGINT"}},
    ):
        table = db.create_table("flights", sort_by=["delya"])
        with advises("Give them the column; or drop_table(", names=["flights", "delya", "origin, delay"]):
            table.append(ROWS)
        db.drop_table("flights")
        assert db.create_table("flights", **follow).append(ROWS).rows == 2
        db.drop_table("flights")


def test_a_column_of_partitions_is_cast(db):
    table = db.create_table("flights", partition_by=["bucket(4, delay)"])
    with advises("Cast the column to such a type; or create the table anew", names=["flights", "delay"]):
        table.append([{"delay": 1.5}])
    table.append([{"delay": Decimal("1.5")}])
    db.drop_table("flights")
    table = db.create_table("flights", partition_by=["delay"])
    assert table.append([{"delay": 1.5}]).rows == 1


def test_partitions_with_long_names_are_made_by_other_fields(db):
    long, longer = "n" * 200, "n" * 250
    with advises("Partition by a column with a shorter name", names=longer[:40]):
        db.create_table("flights", partition_by=[longer])
    table = db.create_table("flights", partition_by=[long])
    row = {long: "v" * 100, "delay": 1}
    with advises("Partition by truncate(…) or bucket(…), or by a column with a", names=long[:40]):
        table.append([row])
    db.drop_table("flights")
    for field in (f"bucket(4, {long})", "delay"):
        assert db.create_table("flights", partition_by=[field]).append([row]).rows == 1
        db.drop_table("flights")


def test_a_type_that_does_not_fit_is_another_columns(db):
    table = db.create_table("flights")
    table.append([{"delay": "66"}, {"delay": "late"}])
    with advises("Choose a type that does, like VARCHAR", names=["flights", "delay", ".parquet"]) as advice:
        table.alter(types={"delay": "BIGINT"})
    table.rewrite(advice.after("rewrite("))
    assert table.scan(columns=["delay_cast"], where="delay_cast IS NOT NULL").to_arrow().to_pylist() == [
        {"delay_cast": 66}
    ]
    table.alter(types={"delay": "VARCHAR"})


def test_conflicts_says_what_there_is_to_resolve():
    table = race([66, 66.5])
    with advises("so there is nothing to resolve. See conflicts()", names=["t", "x~double"]):
        table.resolve("x~double")
    (conflict,) = table.conflicts()
    table.resolve(conflict.column)
    assert [row["x"] for row in rows(table)] == [66.0, 66.5]


def test_more_of_what_is_set_aside_is_the_columns():
    for follow in ("resolve", "leave"):
        table = race([66, 66.5])
        with advises("First resolve(", names=["t", "x~double", "x"]) as advice:
            table.append([{"x": 67, "x~double": 67.5}])
        if follow == "resolve":
            table.resolve(advice.after("resolve("))
            table.append([{"x": 67.5}])
        else:
            table.append([{"x": 67}])
        assert len(table.snapshot().files) == 3 and len(table.conflicts()) == (follow == "leave")


def test_what_is_set_aside_gets_a_type_of_both_or_is_rewritten():
    for follow, values in (("to", ["66", "67"]), ("rewrite", [66, 67])):
        table = race([66, "67"])
        with advises(" doesn't take in. Choose to=", names=["t", "x", ".parquet"]) as advice:
            table.resolve("x", to="BIGINT")
        if follow == "to":
            table.resolve("x", to=advice.after("to="))
        else:
            table.rewrite(advice.after("rewrite("))
        assert [row["x"] for row in rows(table)] == values


def test_a_column_that_does_not_fit_another_makes_it_text():
    for follow in ("to", "rewrite"):
        table = race([66, "late"])
        with advises("doesn't take in. Pass to='VARCHAR'", names=["t", "x~varchar"]) as advice:
            table.resolve("x~varchar", into="x")
        if follow == "to":
            table.resolve("x~varchar", into="x", to=advice.after("to="))
            assert [row["x"] for row in rows(table)] == ["66", "late"]
        else:
            table.rewrite(advice.after("rewrite("))
            assert "x~varchar_cast" in table.snapshot().columns


def test_a_table_by_itself_knows_no_spark(db):
    table = db.create_table("flights")
    table.append(ROWS)
    engines = table.context.engines
    table.context = replace(table.context, engines=InProcess())
    for use in (
        lambda: table.scan().to_spark(),
        lambda: table.context.engines.load(table.context, ROWS, namer=None, query=None, aside=frozenset()),
    ):
        with advises("was made without a database: get it by firn.connect(…).table(…)", names="flights"):
            use()
    assert type(db.table("flights").context.engines) is type(engines) is not InProcess


def test_a_soft_delete_of_no_firn_is_restored_away():
    table = firn.connect("memory://", writer="w").create_table("t", journal="writer", key=["id"])
    table.upsert([{"id": 1, "n": 1}])
    then = table.snapshot().version
    path = table.snapshot().files[0].path
    with table.journal.exclusive("delete") as session:
        session.publish(Commit("delete", soft_deletes=[SoftDelete("n = 1", (path,))]))
    with advises("come back as they were before. Restore an older version of the table", names=path):
        table.scan().to_arrow()
    table.restore(then)
    assert table.scan().to_arrow().num_rows == 1


def test_a_file_that_says_it_is_another_is_copied_back():
    db = firn.connect("memory://", writer="w")
    table = db.create_table("t", journal="writer")
    table.append([{"n": 1}])
    layout = table.journal.own.history.layout
    (info,) = (i for i in db.bucket.list(layout.data_prefix).objects if i.key.endswith(".parquet"))
    footer = read_footer(db.bucket, info.key, info.size)
    record = read_metadata(footer.metadata.metadata, where=info.key)
    with advises("aren't those that were written: copy it ", names=info.key):
        restored_file(db.bucket, layout, info, footer, replace(record, uuid="0" * 32))
    found = restored_file(db.bucket, layout, info, footer, record)
    assert (found.path, found.rows) == (info.key, 1)


def test_batches_get_the_same_columns(db):
    table = db.create_table("flights")
    spec = WriteSpec.of(table.context, {"delay": "BIGINT"}, table.journal.begin_append().namer)
    one, two = pa.record_batch({"delay": [66]}), pa.record_batch({"delay": [95], "origin": ["HNL"]})
    with advises("give every batch the same columns", names="'origin'"):
        write_batches(table.bucket, spec, [one, two])
    write_batches(table.bucket, spec, [one, two.select(["delay"])])
    assert len(db.bucket.list("flights/_data/").objects) == 1


def test_a_damaged_change_of_a_table_is_copied_back(db):
    table = db.create_table("flights")
    table.append(ROWS)
    table.alter(set_properties={"codec": "snappy"})
    key = db.bucket.list("flights/_log/").objects[-1].key
    body = db.bucket.get(key).data
    log = decode(key.rpartition("/")[2], body, where=key)
    db.bucket.put(key, encode(replace(log, notes={**log.notes, "definition": {"prop": 5}})))
    with advises("Restore the object from a backup or an older ", names=key.rpartition("/")[2]):
        db.table("flights").scan().count()
    db.bucket.put(key, body)
    assert db.table("flights").scan().count() == 2


def test_partitions_are_overwritten_after_a_merge_has_dealt_rows_out_anew(db):
    table = db.create_table("t", partition_by=["a"])
    table.append([{"a": 1, "b": 1}])
    table.alter(partition_by=["b"])
    with advises("Run merge(respec=True) first", names="t"):
        table.overwrite([{"a": 2, "b": 1}], partitions="touched")
    table.merge(respec=True)
    table.overwrite([{"a": 2, "b": 1}], partitions="touched")
    assert table.scan().to_arrow().to_pylist() == [{"a": 2, "b": 1}]


def test_a_text_that_its_column_cant_hold_is_let_in(db: firn.Database) -> None:
    table = db.create_table("t", schema={"id": "UUID"})
    with advises(
        "correct the data, or let the column take any text (ALTER TABLE … ALTER COLUMN ", names="id"
    ):
        table.append([{"id": "x"}])
    db.sql("ALTER TABLE t ALTER COLUMN id TYPE VARCHAR")
    table.append([{"id": "x"}])
    assert table.scan().count() == 1


def test_a_column_that_is_called_as_a_merges_own_is_renamed(db):
    table = db.create_table("flights", schema={"origin": "VARCHAR", "~row": "BIGINT"})
    with advises("called: rename it, in the source or by alter(rename=…).", names="'~row'"):
        table.update("true", {"~row": "1"})
    table.alter(rename={"~row": "number"})
    assert table.update("true", {"number": "1"}).rows_updated == 0


def test_a_shared_table_is_kept_where_it_is_named(db):
    with advises("Leave maintain out; `firn keep` keeps the table where it is named", names="icedb"):
        db.create_table("flights", properties={"shared": "icedb", "maintain": "auto"})
    db.create_table("flights", properties={"shared": "icedb"}).append(ROWS)
    assert db.keep("flights", once=True)["flights"].error is None


def test_a_table_without_a_lock_in_its_bucket_is_kept_by_a_call(tmp_path):
    options = {"conditional_put": "disabled"}
    db = firn.connect(tmp_path / "db", options=options, lock=firn.FileLock(tmp_path / "locks"))
    with advises("make a lock of. Leave maintain out; `table.keep()` of a connection with lock= ", names="t"):
        db.create_table("t", properties={"maintain": "auto"})
    table = db.create_table("t", properties={"inline": "64KB"})
    table.append(ROWS)
    assert table.keep(once=True).commits == 1


def test_keeping_is_given_a_lock(tmp_path):
    options = {"conditional_put": "disabled"}
    db = firn.connect(tmp_path / "db", options=options)
    table = db.create_table("t", properties={"inline": "64KB"})
    table.append(ROWS)
    with advises(
        "keeping tables needs a lock, and this store has no conditional puts to make one of. ", names="db"
    ):
        db.keep(once=True)
    with advises("keeping a table needs a lock, and this store has no conditional puts ", names="t"):
        table.keep(once=True)
    with firn.connect(tmp_path / "db", options=options, lock=firn.FileLock(tmp_path)) as locked:
        assert locked.keep(once=True)["t"].commits == 1


def test_a_writers_part_is_kept_by_its_process(tmp_path):
    with firn.connect(tmp_path, writer="a") as db:
        db.create_table("cpu", journal="writer").append(ROWS)
    with advises("each writer's own process keeps its part: firn.connect(url, writer=…).keep()", names="cpu"):
        firn.connect(tmp_path).keep("cpu", once=True)
    with firn.connect(tmp_path, writer="a") as db:
        assert db.keep("cpu", once=True)["cpu"].error is None
