"""fsck: whole databases have no problems, and each kind of damage is told with the object and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from cli_runs import ROWS, done, flights, run
from firn.inspect.fsck.findings import Finding, Findings
from firn.inspect.fsck.fsck import check
from firn.journal.leaderless.format.codec import decode, encode
from firn.journal.writer.format.actions import Add, Remove, Tombstones
from firn.journal.writer.format.identity import new_uuid
from firn.journal.writer.format.messages import encode_checkpoint, encode_transaction
from firn.journal.writer.history.history import History
from moments import append_late
from writer_databases import UNCLAIMED, database, fork, keys, layout, newest, two_writers

pytestmark = pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    """Two writers with checkpoints, and a table with a log."""
    found = two_writers(tmp_path)
    found.table("cpu").checkpoint()
    found.table("cpu").append([{"host": "w", "cores": 4}])
    found.create_table("events").append([{"n": 1}])
    return found


@pytest.fixture
def unclaimed(tmp_path: Path) -> firn.Database:
    return two_writers(tmp_path, options=UNCLAIMED)


def problems(db: firn.Database, table: str | None = None, **options: object) -> list[Finding]:
    found = check(db, table, **options).problems  # type: ignore[arg-type]
    assert all(f.what and f.remedy for f in found), found
    return list(found)


def notes(db: firn.Database) -> list[Finding]:
    return [f for f in check(db).findings if f.severity == "note"]


def the_problem(db: firn.Database, table: str | None = None) -> Finding:
    (found,) = problems(db, table)
    return found


def transactions(db: firn.Database, writer: str = "a", suffix: str = ".transaction") -> list[str]:
    return [k for k in keys(db.bucket, layout(writer).transactions_prefix) if k.endswith(suffix)]


def flip(db: firn.Database, key: str, at: int = -3) -> None:
    data = bytearray(db.bucket.get(key).data)
    data[at] ^= 16
    db.bucket.put(key, bytes(data))


# -- whole


def test_a_whole_database_has_no_problems(db: firn.Database) -> None:
    report = check(db)
    assert report.findings == ()
    assert report.checked == {
        "tables": 2,
        "logs": 1,
        "data files": 4,
        "transactions": 5,
        "checkpoints": 2,
        "claims": 5,
        "markers": 4,
    }


def test_so_has_one_that_was_merged_pruned_and_swept(db: firn.Database) -> None:
    cpu = db.table("cpu")
    for n in range(3):
        cpu.append([{"host": "v", "cores": n}])
    cpu.merge()
    cpu.append([{"host": "u", "cores": 9}])
    db.prune("0s")
    cpu.sweep(orphans="0s")
    assert problems(db) == []
    events = db.table("events")
    events.append([{"n": 2}])
    events.merge()
    assert problems(db) == []
    assert any("were replaced or removed" in f.what for f in notes(db))
    events.checkpoint()
    events.sweep(older_than="0s")
    assert check(db).findings == ()


def test_nothing_is_changed_and_a_table_or_writer_can_be_chosen(db: firn.Database) -> None:
    before = [(i.key, i.etag) for i in db.bucket.list("").objects]
    assert check(db, "events").checked == {"tables": 1, "logs": 1, "data files": 1}
    assert check(db, "cpu").checked["data files"] == 3
    assert check(db, writer="b").checked["transactions"] == 1
    assert [(i.key, i.etag) for i in db.bucket.list("").objects] == before
    with pytest.raises(firn.NotFoundError):
        check(db, "mem")
    with pytest.raises(firn.NotFoundError):
        check(db, writer="c")


def test_an_empty_database_and_one_without_writers(tmp_path: Path) -> None:
    assert check(database(tmp_path)).checked == {}
    flights(tmp_path / "plain")
    assert check(firn.connect(tmp_path / "plain")).findings == ()


def test_without_footers_fewer_bytes_are_read(db: firn.Database) -> None:
    def spent(footers: bool) -> int:
        before = db.bucket.counters.get
        check(db, footers=footers)
        return db.bucket.counters.get - before

    assert spent(True) - spent(False) == 4


def test_what_a_check_of_a_log_costs(db: firn.Database) -> None:
    events = db.table("events")
    events.append([{"n": 2}], batch_id="b")
    before = db.bucket.counters.as_dict()
    assert check(db, "events").findings == ()
    after = db.bucket.counters.as_dict()
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "delete")}
    # 2 logs, 1 batch claim, 2 footers; definition, lock, checkpoint, horizon; 1 LIST tells that it is a table.
    assert spent == {"get": 2 + 1 + 2 + 4, "put": 0, "list": 3 + 1, "delete": 0}


# -- a catalog's objects


def test_a_damaged_transaction(db: firn.Database) -> None:
    key = transactions(db)[1]
    flip(db, key)
    found = problems(db)
    told = next(f for f in found if f.object == db.bucket.uri(key))
    assert told.what.startswith("is not a transaction of this catalog: its checksum is wrong")
    assert "firn rebuild" in told.remedy


def test_the_newest_transaction_damaged_or_missing(db: firn.Database) -> None:
    key = transactions(db)[-1]
    flip(db, key)
    assert any(f.object == db.bucket.uri(key) for f in problems(db))
    db.bucket.delete(key)
    assert problems(db) == []
    assert any("its transaction isn't there yet" in f.what for f in notes(db))  # its claim tells of it
    db.bucket.delete(layout().claim_key(4))
    db.bucket.delete(layout().claim_key(3))
    assert any(f.what.startswith("the newest revision's claim is missing") for f in problems(db))


def test_a_missing_transaction_in_the_middle(db: firn.Database) -> None:
    db.bucket.delete(transactions(db)[1])
    found = problems(db)
    assert any("the transaction of revision 2" in f.what for f in found)
    assert all("firn rebuild" in f.remedy for f in found)


def test_a_lost_tail_is_seen_by_what_was_written_for_it(unclaimed: firn.Database) -> None:
    cpu = unclaimed.table("cpu")
    for n in (5, 6):
        cpu.append([{"host": "w", "cores": n}])
    for key in transactions(unclaimed)[-2:]:
        unclaimed.bucket.delete(key)
    found = problems(firn.connect(unclaimed.url))
    assert any("the transaction of revision 4" in f.what for f in found)


def test_a_damaged_checkpoint_and_one_that_lies(db: firn.Database) -> None:
    (key,) = transactions(db, suffix=".checkpoint")
    whole = db.bucket.get(key).data
    flip(db, key)
    told = the_problem(db)
    assert (told.object, "delete it" in told.remedy) == (db.bucket.uri(key), True)
    db.bucket.put(key, whole)
    state = History(db.bucket, layout()).at(3).state
    table = replace(state.tables["cpu"], files={})
    db.bucket.put(key, encode_checkpoint(replace(state, tables={"cpu": table})))
    found = problems(db)
    told = next(f for f in found if f.object == db.bucket.uri(key))
    assert told.what == "it isn't what the transactions before it say"
    assert "firn checkpoint" in told.remedy


def test_a_fork_and_one_that_was_decided(unclaimed: firn.Database) -> None:
    kept, lost = fork(unclaimed.bucket)
    told = the_problem(unclaimed)
    assert told.object == unclaimed.bucket.uri(layout().root)
    assert "an open fork at revision 3 between" in told.what
    assert kept.uuid[:8] in told.what
    assert lost.uuid[:8] in told.what
    assert "firn repair --keep" in told.remedy
    unclaimed.repair(kept.uuid)
    assert problems(firn.connect(unclaimed.url)) == []
    assert any(f"decided against {lost.uuid[:8]} of revision 3" in f.what for f in notes(unclaimed))


def test_transactions_that_cant_follow_one_another(unclaimed: firn.Database) -> None:
    _, last = newest(unclaimed.bucket)

    def follows(actions: list[object], revision: int = 4, previous: str = last.uuid) -> Finding:
        uuid = new_uuid()
        commit = replace(last.commit, uuid=uuid, previous=previous)
        body = encode_transaction(replace(last, revision=revision, actions=actions, commit=commit))
        key = layout().transaction_key(revision, uuid)
        unclaimed.bucket.put(key, body)
        found = problems(firn.connect(unclaimed.url), writer="a")
        unclaimed.bucket.delete(key)
        return found[-1]

    assert "removes the file nowhere, which isn't there" in follows([Remove("nowhere")]).what
    assert "names the table 'mem'" in follows([Tombstones("mem", "x", ())]).what
    assert "follows" in follows([], previous=new_uuid()).what
    assert "missing" in follows([], revision=6).what


def test_names_that_no_firn_writes(db: firn.Database) -> None:
    db.bucket.put(layout().transactions_prefix + "notes.txt", b"mine")
    db.bucket.put(layout().data_prefix + "cpu/notes.txt", b"mine")
    told = the_problem(db)
    assert told.object.endswith("/transactions/notes.txt")
    assert "it isn't <revision>.<uuid>.<suffix>" in told.what
    assert any(f.object.endswith("cpu/notes.txt") for f in notes(db))


@pytest.mark.parametrize("revision", [2, 4])
def test_a_damaged_claim(db: firn.Database, revision: int) -> None:
    flip(db, layout().claim_key(revision))
    found = problems(db)
    assert found[0].object == db.bucket.uri(layout().claim_key(revision))


def test_claims_that_stop_everybody(db: firn.Database) -> None:
    _, last = newest(db.bucket)
    head = layout().claim_key(4)
    whole = db.bucket.get(head).data
    db.bucket.delete(head)
    assert any("nobody can commit" in f.what or "is missing" in f.what for f in problems(db))
    other = replace(last, commit=replace(last.commit, uuid=new_uuid()))
    db.bucket.put(head, encode_transaction(other))
    assert any(f.object == db.bucket.uri(head) and "another's" in f.what for f in problems(db))
    db.bucket.put(head, whole)
    above = layout().claim_key(5)
    stale = replace(last, revision=5, commit=replace(last.commit, uuid=new_uuid(), previous=new_uuid()))
    db.bucket.put(above, encode_transaction(stale))
    assert any("can't follow revision 4" in f.what for f in problems(db))
    claim = replace(stale, actions=(), commit=replace(stale.commit, previous=last.uuid))
    db.bucket.put(above, encode_transaction(claim))
    assert problems(db) == []
    assert any("its transaction isn't there yet" in f.what for f in notes(db))


def test_a_damaged_marker(db: firn.Database) -> None:
    key = keys(db.bucket, layout().markers_prefix)[0]
    flip(db, key, 60)
    assert [f.object for f in problems(db)] in ([db.bucket.uri(key)], [])
    db.bucket.put(key, b"PAR1")
    assert the_problem(db).object == db.bucket.uri(key)


def test_a_missing_marker_is_a_note(db: firn.Database) -> None:
    key = keys(db.bucket, layout().markers_prefix)[0]
    db.bucket.delete(key)
    assert problems(db) == []
    (told,) = notes(db)
    assert (told.object, "could not tell what revision 1 did" in told.what) == (db.bucket.uri(key), True)


def test_each_damaged_object_is_one_problem(db: firn.Database) -> None:
    damaged = [k for k in keys(db.bucket, "") if "/transactions/" in k or "/claims/" in k or "/_log/" in k]
    assert len(damaged) == 13
    for key in damaged:
        whole = db.bucket.get(key).data
        db.bucket.put(key, whole[:-7])
        assert the_problem(firn.connect(db.url)).object == db.bucket.uri(key)
        db.bucket.put(key, whole)


def test_a_hint_that_helps_nobody_is_a_note(db: firn.Database) -> None:
    db.bucket.put(layout().hint_key, orjson.dumps({"revision": 2, "uuid": "0badcafe"}))
    assert any("0badcafe of revision 2, which isn't there" in f.what for f in notes(db))
    db.bucket.put(layout().hint_key, b"?")
    assert any("no hint can be read" in f.what for f in notes(db))
    assert problems(db) == []


def test_the_databases_name(db: firn.Database) -> None:
    db.bucket.delete("_firn/database.json")
    assert "is missing" in the_problem(db).what
    db.bucket.put("_firn/database.json", b"?")
    assert "doesn't name the database" in the_problem(db).what


def test_types_that_conflict_between_writers(tmp_path: Path) -> None:
    a, b = database(tmp_path, "a", options=UNCLAIMED), database(tmp_path, "b", options=UNCLAIMED)
    a.create_table("cpu", journal="writer").append([{"n": 1}])
    b.table("cpu").append([{"n": 1}])
    key, transaction = newest(a.bucket, "b")
    actions = [
        replace(x, columns=(("n", "VARCHAR"),)) if isinstance(x, Add) else x for x in transaction.actions
    ]
    a.bucket.put(key, encode_transaction(replace(transaction, actions=actions)))
    told = the_problem(database(tmp_path, None))
    assert told.object.endswith("/prod/cpu")
    assert "column 'n' is BIGINT in" in told.what
    assert "resolve('n'" in told.remedy


def test_a_soft_delete_that_cant_be_read(unclaimed: firn.Database) -> None:
    key, transaction = newest(unclaimed.bucket)
    (action,) = transaction.actions
    assert isinstance(action, Tombstones)
    bad = replace(action, predicate="cores = = 2")
    unclaimed.bucket.put(key, encode_transaction(replace(transaction, actions=(bad,))))
    told = the_problem(firn.connect(unclaimed.url))
    assert told.object == unclaimed.bucket.uri(action.files[0])
    assert "cores = = 2" in told.what


def test_a_soft_delete_may_name_a_column_that_its_file_lacks(db: firn.Database) -> None:
    cpu = db.table("cpu")
    cpu.append([{"host": "v", "rack": 7}])
    cpu.delete("rack IS NULL AND host = 'x'")
    assert problems(db) == []


# -- data files


@pytest.mark.parametrize("table", ["cpu", "events"])
def test_data_files_that_are_missing_or_other(db: firn.Database, table: str) -> None:
    file = db.table(table).snapshot().files[0]
    whole = db.bucket.get(file.path).data
    db.bucket.delete(file.path)
    told = the_problem(db)
    assert (told.object, "it is missing, and live" in told.what) == (db.bucket.uri(file.path), True)
    db.bucket.put(file.path, whole + b"x")
    assert f"it has {len(whole) + 1:,} bytes, the journal says {len(whole):,}" in the_problem(db).what
    damaged = bytearray(whole)
    damaged[-20] ^= 1
    db.bucket.put(file.path, bytes(damaged))
    assert "the checksum of its footer is wrong" in the_problem(db).what
    assert problems(db, footers=False) == []
    assert the_problem(db, table).object == db.bucket.uri(file.path)


def test_a_file_that_only_older_revisions_read(db: firn.Database) -> None:
    cpu = db.table("cpu")
    old = cpu.snapshot().files[0].path
    cpu.merge()
    assert problems(db) == []
    db.bucket.delete(old)
    assert "read as of revision 2" in the_problem(db).what


def test_a_missing_file_of_another_table_is_none_of_this_ones(db: firn.Database) -> None:
    mem = db.create_table("mem", journal="writer")
    mem.append([{"n": 1}])
    db.bucket.delete(mem.snapshot().files[0].path)
    assert problems(db, "cpu") == []
    assert len(problems(db, "mem")) == len(problems(db)) == 1


def test_orphans_are_counted(db: firn.Database) -> None:
    cpu = db.table("cpu")
    with pytest.raises(RuntimeError), db.writer_transaction() as tx:
        tx.append("cpu", [{"host": "v", "cores": 1}])
        raise RuntimeError
    assert cpu.scan().count() == 3
    db.bucket.put("events/_data/part-a-orphan.parquet", b"x")
    found = [f.what for f in notes(db)]
    assert any("1 files of" in what and "are of no retained revision" in what for what in found)
    assert any("1 files of 1 bytes are of no version" in what for what in found)


# -- logs


@pytest.fixture
def log(tmp_path: Path) -> firn.LakeTable:
    return flights(tmp_path)


def log_problems(table: firn.LakeTable) -> list[Finding]:
    return problems(firn.connect(table.bucket.url), "flights")


def log_keys(table: firn.LakeTable) -> list[str]:
    return keys(table.bucket, "flights/_log/")


def test_a_damaged_log(log: firn.LakeTable) -> None:
    key = log_keys(log)[2]
    data = bytearray(log.bucket.get(key).data)
    data[-5] ^= 1
    log.bucket.put(key, bytes(data))
    (told,) = log_problems(log)
    assert told.object == log.bucket.uri(key)
    assert "checksum" in told.what
    log.bucket.put(key, b'{"v": 9}')
    (told,) = log_problems(log)
    assert "format version 9" in told.what
    assert "Upgrade Firn" in told.remedy


def test_an_object_among_the_logs(log: firn.LakeTable) -> None:
    log.bucket.put("flights/_log/notes.txt", b"mine")
    (told,) = log_problems(log)
    assert told.object.endswith("notes.txt")
    assert "the reference fails on it" in told.remedy


def test_a_log_that_is_replaced_and_not_carried(log: firn.LakeTable) -> None:
    log.merge()
    assert log_problems(log) == []
    key = next(k for k in log_keys(log) if "_m_" in k)
    merged = decode(key.rpartition("/")[2], log.bucket.get(key).data, where=key)
    lost = next(f for f in merged.files if f.path in merged.dead)
    files = [f for f in merged.files if f is not lost]
    dead = {p: t for p, t in merged.dead.items() if p != lost.path}
    log.bucket.put(key, encode(replace(merged, files=files, dead=dead)))
    told = next(f for f in log_problems(log) if f.object == log.bucket.uri(key))
    assert f"doesn't carry its files {lost.path}" in told.what


@pytest.mark.parametrize("name", ["lock.json", "sweep.json", "table.json", "checkpoint.bin"])
def test_damaged_objects_beside_the_log(log: firn.LakeTable, name: str) -> None:
    log.bucket.put(f"flights/_firn/{name}", b"rust")
    (told,) = log_problems(log)
    assert f"flights/_firn/{name}" in f"{told.object} {told.what}" or told.object.endswith("/flights")


def test_a_checkpoint_that_says_something_else_than_the_logs(log: firn.LakeTable) -> None:
    from firn.journal.leaderless.replay import checkpoint

    (info, *_) = log.bucket.list("flights/_log/").objects
    body = checkpoint.encode_all([(info.key.rpartition("/")[2], info.etag, b"{}")])
    log.bucket.put("flights/_firn/checkpoint.bin", body)
    (told,) = log_problems(log)
    assert "it holds other bytes of the log" in told.what


def test_the_newest_log_is_missed_by_the_checkpoint(log: firn.LakeTable) -> None:
    log.merge()
    log.checkpoint()
    key = next(k for k in log_keys(log) if "_m_" in k)
    log.bucket.delete(key)
    (told,) = log_problems(log)
    assert told.object == log.bucket.uri(key)
    assert "newer than every log that is left" in told.what


def test_a_damaged_claim_of_a_batch(log: firn.LakeTable) -> None:
    log.append(ROWS[:1], batch_id="b-1")
    assert log_problems(log) == []
    (key,) = keys(log.bucket, "flights/_firn/batches/")
    for body in (b"rust", b"[]", b'{"batch": "b-2", "log": "x.jsonl"}', b'{"batch": "b-1"}'):
        log.bucket.put(key, body)
        (told,) = log_problems(log)
        assert (told.object, told.what) == (log.bucket.uri(key), "it isn't the claim of a batch")


def test_a_held_lock_is_a_note(log: firn.LakeTable) -> None:
    with log.journal.exclusive("merge"):
        report = check(firn.connect(log.bucket.url), "flights")
    assert report.problems == ()
    (told,) = report.findings
    assert "holds the lock for merge" in told.what


def test_types_that_conflict(log: firn.LakeTable) -> None:
    key = log_keys(log)[-1]
    last = decode(key.rpartition("/")[2], log.bucket.get(key).data, where=key)
    log.bucket.put(key, encode(replace(last, columns={**last.columns, "delay": "VARCHAR"})))
    told = log_problems(log)
    assert any("delay" in f.what for f in told)


def test_columns_that_no_definition_knows(log: firn.LakeTable) -> None:
    """As if a log was lost that had told of them."""
    for key in log_keys(log):
        each = decode(key.rpartition("/")[2], log.bucket.get(key).data, where=key)
        columns = {name: kind for name, kind in each.columns.items() if name != "delay"}
        log.bucket.put(key, encode(replace(each, columns=columns)))
    told, *_ = log_problems(log)
    assert "/_data/" in told.object and "a column 'delay' that no definition knows" in told.what
    assert check(firn.connect(log.bucket.url), "flights", footers=False).problems == ()
    table = firn.connect(log.bucket.url).table("flights")
    assert "delay" not in table.scan().columns and "alter(add={'delay': TYPE})" in told.remedy
    table.alter(add={"delay": "BIGINT"})
    assert table.scan(where="delay IS NOT NULL").count() > 0 and log_problems(log) == []


def test_columns_that_no_catalog_knows(tmp_path: Path) -> None:
    db = database(tmp_path, "a", options=UNCLAIMED)
    db.create_table("cpu", journal="writer", schema={"n": "BIGINT"}).append([{"n": 1, "m": 1}])
    key, transaction = newest(db.bucket)
    actions = [
        replace(x, columns=(("n", "BIGINT"),)) if isinstance(x, Add) else x for x in transaction.actions
    ]
    db.bucket.put(key, encode_transaction(replace(transaction, actions=actions)))
    told = the_problem(database(tmp_path, None))
    assert "a column 'm' that no definition knows" in told.what


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_columns_that_were_altered_are_known(tmp_path: Path, journal: str) -> None:
    db = firn.connect(tmp_path, writer="w")
    table = db.create_table("t", journal=journal, schema={"id": "BIGINT"}, partition_by=["id"])
    table.append([{"id": 1, "a": 1, "b": 1, "c": 1}])
    append_late(table, [{"id": 1, "c": 1.5}], {"id": "BIGINT"})
    table.alter(rename={"a": "x"}, drop="b", add={"B": ("BIGINT", 5)})
    append_late(table, [{"id": 1, "b": 2}], {"id": "BIGINT"})
    table.alter(partition_by=[], drop="x")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [2], "B": [2], "nothing": pa.nulls(1)}), sink)
    table.bucket.put("ext/1.parquet", sink.getvalue().to_pybytes())
    table.register("ext/1.parquet")
    assert all("definition knows" not in f.what for f in check(db).problems)
    table.merge()
    table.resolve("c")
    assert check(db).problems == ()


def test_a_table_that_is_being_dropped_is_a_note(log: firn.LakeTable) -> None:
    log.bucket.put("flights/_firn/table.json", replace(log.context.definition, dropped=True).encode())
    (told,) = notes(firn.connect(log.bucket.url))
    assert "is being dropped" in told.what


def test_what_only_one_of_two_passes_found_was_somebody_at_work() -> None:
    first = Findings([Finding("a", "x", "mend"), Finding("b", "y", "mend")])
    again = Findings([Finding("b", "y", "mend"), Finding("c", "z", "mend"), Finding("d", "n", "", "note")])
    assert [f.object for f in first.confirmed_by(again).found] == ["b", "d"]


# -- the command


def test_the_command(db: firn.Database, tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    found = done("fsck", prod)
    assert "checked" in found.out
    assert "all is well" in found.out
    assert done("fsck", prod / "cpu", "--json").json["ok"] is True
    assert "all is well" in done("fsck", "events", "--db", prod, "--quick").out
    file = db.table("cpu").snapshot().files[0]
    db.bucket.delete(file.path)
    bad = run("fsck", prod, "--json")
    assert (bad.code, bad.json["ok"]) == (1, False)
    (told,) = bad.json["findings"]
    assert told["object"].endswith(file.path)
    assert told["severity"] == "problem"
    text = run("fsck", prod / "cpu")
    assert text.code == 1
    assert f"problem: {told['object']}: it is missing" in text.out
    assert "1 problem" in text.out
    assert done("fsck", prod / "events").code == 0
    assert done("fsck", prod, "--writer", "b").code == (1 if file.path.startswith("b/") else 0)


def test_the_command_on_what_isnt_there(db: firn.Database, tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    assert run("fsck", prod / "nothing").code == 3
    assert run("fsck", tmp_path / "nothing").code == 3
    assert run("fsck", prod, "--writer", "c").code == 3
    assert run("fsck").code == 2
    (prod / "events/_firn/table.json").write_bytes(b"rust")
    assert run("fsck", prod / "events").code == 1


def test_rows_that_fail_a_check_and_writers_that_lag_are_told(tmp_path: Path) -> None:
    one, other = (firn.connect(tmp_path, writer=name) for name in ("w", "v"))
    table = one.create_table("cpu", journal="writer")
    table.append([{"n": 1}])
    stale = other.table("cpu")
    stale.append([{"n": 2}])
    late = stale.journal.known()
    table.alter(rename={"n": "m"}, checks={"sane": "m > 0"})
    stale.journal.known = lambda **_: late  # type: ignore[method-assign]
    stale.append([{"n": -5}])
    found = check(one, checks=True)
    assert [f.what for f in found.problems] == ["1 rows fail the check 'sane': \"m\" > 0"]
    assert not check(one).problems
    assert any("the catalogs of v lack some" in f.what for f in found.findings)
    logged = one.create_table("t", schema={"n": "BIGINT"})
    logged.alter(checks={"sane": "n > 0"})
    assert not check(one, "t", checks=True).problems
