"""Rows that stand in a writer's catalog: read, changed and kept as those of files are."""

from __future__ import annotations

import random
import secrets
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.inspect.dump.dump import dump_object
from firn.inspect.fsck.fsck import check
from firn.inspect.report.report import render_report
from firn.journal.inlined import InlinedRows
from firn.journal.writer.commit import local_writer
from firn.journal.writer.federation.federation import Federation
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import Add
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import decode_transaction, encode_transaction
from firn.journal.writer.history.history import History
from firn.journal.writer.journal import WriterJournal
from firn.lake.table import LakeTable
from lake_journals import ListingWriterLake, WriterLake
from seeds import seeds
from writer_databases import UNCLAIMED

INLINE = {"inline": "64KB", "schema_refresh": "1h"}


@pytest.fixture(params=[WriterLake, ListingWriterLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> WriterLake:
    made: WriterLake = request.param(str(tmp_path / "db"))
    return made


def _layout(lake: WriterLake) -> WriterLayout:
    return WriterLayout(lake.db.prefix, "w", "db")


def _table(lake: WriterLake, **options: Any) -> LakeTable:
    return lake.create("t", properties={**INLINE, **options.pop("properties", {})}, **options)


def _requests(table: LakeTable, run: Callable[[], object]) -> dict[str, int]:
    before = table.bucket.counters.as_dict()
    run()
    after = table.bucket.counters.as_dict()
    verbs = ("get", "put", "list", "head", "delete")
    return {verb: after[verb] - before[verb] for verb in verbs if after[verb] != before[verb]}


def _values(table: LakeTable, name: str = "n", **options: Any) -> list[Any]:
    return sorted(table.scan(**options).to_arrow()[name].to_pylist())


def _parts(table: LakeTable) -> list[int | None]:
    return [file.rows for file in table.snapshot().files if file.inlined is not None]


def test_an_append_is_its_transaction() -> None:
    claimed, listed = WriterLake(), ListingWriterLake()
    costs = []
    for lake in (claimed, listed):
        table = _table(lake, partition_by=["k"])
        table.append([{"k": 0, "n": 0}])
        costs.append(_requests(table, lambda t=table: t.append([{"k": k, "n": k} for k in range(5)])))
        table.snapshot()
        assert _requests(table, lambda t=table: t.scan().to_arrow()).keys() == {"list"}
        assert [p.rows for p in table.partitions()] == [2, 1, 1, 1, 1] and not lake.stored("t")
        told = table.history()[-1]
        assert (told.files_added, told.rows_added, told.inlined) == (0, 5, True) and told.bytes_added > 20
        assert "inlined    6 rows in 2 commits" in table.scan().explain()
        with pytest.raises(firn.UnsupportedError, match="merge"):
            table.scan().uris()
    assert costs == [{"put": 2, "get": 1}, {"put": 2, "list": 2}]
    rows = [{"k": 0, "n": n} for n in range(10_001)]
    assert _requests(table, lambda: table.append(rows[:1]))["put"] == 2
    assert table.append(rows).files > 0, "too many rows"


def test_an_append_of_a_file_costs_a_put_more() -> None:
    lake = WriterLake()
    table = lake.create("t", properties={"schema_refresh": "1h"})
    table.append([{"n": 0}])
    assert _requests(table, lambda: table.append([{"n": 1}])) == {"put": 3, "get": 1}


def test_only_the_first_rows_upgrade_a_catalog(lake: WriterLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create("t")
    table.append([{"n": 1}])
    lake.create("other").append([{"n": 1}])
    table.alter(set_properties={"inline": "1KB"})
    table.append([{"s": "x" * 2_000, "n": 2}])
    table.checkpoint()
    assert _versions(lake) == {1}
    before = set(_objects(lake))
    table.append([{"n": 3}], batch_id="b")
    table.delete("n = 1")
    table.append([{"n": 4}])
    lake.db.checkpoint()
    new = [key for key in _objects(lake) if key not in before]
    assert {_version(lake, key) for key in new} == {2} and len(new) >= 4
    monkeypatch.setattr(frame, "NEWEST_VERSION", 1)
    with pytest.raises(firn.UnsupportedError, match=r"format version 2.*Upgrade Firn"):
        firn.connect(lake.url, options=lake.options, strict=True).table("t").scan().count()
    with pytest.raises(firn.UnsupportedError, match="format version 2"):
        lake.connect().create_table("more", journal="writer")


def _objects(lake: WriterLake) -> list[str]:
    prefixes = (_layout(lake).transactions_prefix, _layout(lake).claims_prefix)
    return [info.key for prefix in prefixes for info in lake.db.bucket.list(prefix).objects]


def _version(lake: WriterLake, key: str) -> int:
    head = frame.read_head(lake.db.bucket.get(key).data)
    assert head is not None
    return head.version


def _versions(lake: WriterLake) -> set[int]:
    return {_version(lake, key) for key in _objects(lake)}


def test_an_object_of_the_first_format_holds_no_rows(lake: WriterLake) -> None:
    table = _table(lake)
    table.append([{"n": 1}])
    key = max(key for key in _objects(lake) if key.endswith(".transaction"))
    payload, _ = frame.unpack(frame.TRANSACTION, lake.db.bucket.get(key).data, where=key)
    lake.db.bucket.put(key, frame.pack(frame.TRANSACTION, payload, version=1))
    with pytest.raises(firn.CorruptObjectError, match="holds rows"):
        firn.connect(lake.url, strict=True).table("t").scan().count()


@pytest.mark.parametrize("partition_by", [[], ["k"]])
def test_verbs_take_rows_with_soft_deletes_on_them(lake: WriterLake, partition_by: list[str]) -> None:
    table = _table(lake, partition_by=partition_by)
    for n in range(4):
        table.append([{"k": n % 2, "n": n}, {"k": 5, "n": 10 + n}])
    done = table.delete("n = 1 OR n = 13")
    assert (done.files_marked, done.files_added, _parts(table)) == (2, 0, [2, 2, 2, 2])
    rest = [0, 2, 3, 10, 11, 12]
    assert _values(table) == rest and table.scan().count() == 6 and _values(table, where="n < 3") == [0, 2]
    assert sum(p.rows or 0 for p in table.partitions()) == 6
    assert table.delete("n = 99").version is None
    hard = table.delete("n = 10", soft=False)
    assert hard.files_added == 1 and _values(table) == [0, 2, 3, 11, 12]
    assert table.rewrite("n <> 3").version is not None and _values(table) == [0, 2, 11, 12]
    table.append([{"k": 7, "n": 70}])
    table.delete("n = 70")
    table.merge()
    assert not _parts(table) and _values(table) == [0, 2, 11, 12]
    assert not any(file.deletes for file in table.snapshot().files)


def test_rows_that_a_soft_delete_took_altogether_go_with_a_fold(lake: WriterLake) -> None:
    table = _table(lake)
    table.append([{"n": 1}, {"n": 2}])
    table.delete("n < 2")
    table.delete("n = 2")
    assert _parts(table) == [2] and table.scan().count() == 0
    assert table.merge(only="inlined").version is not None and not table.snapshot().files
    assert table.merge(only="inlined").version is None


def test_other_verbs(lake: WriterLake) -> None:
    table = _table(lake, partition_by=["k"])
    first = table.append([{"k": 1, "n": 1}, {"k": 2, "n": 2}]).version
    table.append([{"k": 2, "n": 3}])
    table.delete("n = 3")
    marked = table.snapshot().version
    table.remove_partitions("k = 1")
    assert _values(table) == [2]
    table.append([{"k": 3, "n": 4}])
    table.overwrite([{"k": 3, "n": 5}], partitions="touched")
    assert _values(table) == [2, 5]
    table.merge_into([{"k": 2, "n": 2}, {"k": 9, "n": 9}], on=["k", "n"], when_not_matched="insert")
    assert _values(table) == [2, 5, 9]
    assert _values(table, at=marked) == [1, 2]
    table.restore(marked)
    assert _values(table) == [1, 2]
    table.restore(first)
    assert _values(table) == [1, 2]
    table.append([{"k": 4, "n": 6}])
    lake.db.sql("UPDATE t SET n = n + 100 WHERE k = 4")
    assert _values(table) == [1, 2, 106]
    table.append([{"k": 5, "n": 7}])
    table.overwrite([{"k": 0, "n": 0}])
    assert _values(table) == [0] and len(table.snapshot().files) == 1


def test_expire_alter_and_respec(lake: WriterLake) -> None:
    table = lake.create(
        "t",
        partition_by=["day(ts)"],
        properties={**INLINE, "retention": "10000000d"},
        schema={"ts": "TIMESTAMP"},
    )
    table.append([{"ts": datetime(2001, 1, 1), "n": 1}])
    table.append([{"ts": datetime(2002, 1, 1), "n": 2}])
    table.alter(rename={"n": "m"}, add={"d": ("BIGINT", 7)})
    table.append([{"ts": datetime(2003, 1, 1), "m": 3, "d": None}])
    assert table.scan(columns=["m", "d"]).to_arrow().sort_by("m").to_pylist() == [
        {"m": 1, "d": 7},
        {"m": 2, "d": 7},
        {"m": 3, "d": None},
    ]
    table.delete("d = 7 AND m = 1")
    table.alter(partition_by=["month(ts)"])
    table.merge(respec=True)
    assert _values(table, "m") == [2, 3] and not _parts(table)
    table.append([{"ts": datetime(2001, 1, 1), "m": 4}, {"ts": datetime(2101, 1, 1), "m": 5}])
    table.expire("1d")
    assert _values(table, "m") == [5]


def test_tables_with_a_key(lake: WriterLake) -> None:
    table = _table(lake, key=["id"])
    table.upsert([{"id": n, "v": "old"} for n in range(4)])
    table.upsert([{"id": 1, "v": "new"}])
    with lake.db.writer_transaction() as tx:
        tx.table("t").upsert([{"id": 2, "v": "first"}])
        tx.table("t").upsert([{"id": 2, "v": "second"}])
    table.update("id = 3", {"v": "'set'"})
    table.delete_keys([{"id": 0}])
    table.upsert([{"id": 5, "v": "late"}])
    expected = [(1, "new"), (2, "second"), (3, "set"), (5, "late")]
    read = lambda: sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())  # noqa: E731
    assert read() == expected and len(_parts(table)) == 5
    clocks = [file.clocks for file in table.snapshot().files]
    table.merge(only="inlined")
    assert read() == expected and not _parts(table)
    assert max(c[1] for c in clocks if c) == max(f.clocks[1] for f in table.snapshot().files if f.clocks)
    table.merge()
    assert read() == expected


def test_a_transaction_holds_rows_of_several_tables(lake: WriterLake) -> None:
    one, two = (lake.create(name, properties=INLINE) for name in ("one", "two"))
    one.append([{"n": 0}])
    with lake.db.writer_transaction() as tx:
        tx.append("one", [{"n": 1}, {"n": 2}])
        tx.append("two", [{"n": 3}])
        tx.append("two", [{"n": 4}])
        tx.delete("one", "n = 2")
        tx.table("two").delete("n = 3", soft=False)
        two.append([{"n": 7}])  # which overtakes it
        assert _values(tx.table("one")) == [0, 1] and _values(tx.table("two")) == [4]
    assert _values(one) == [0, 1] and _values(two) == [4, 7]
    fresh = firn.connect(lake.url, options=lake.options)
    assert _values(fresh.table("one")) == [0, 1] and _values(fresh.table("two")) == [4, 7]
    stream = fresh.table("two").journal.stream()
    told = [f.path for files in stream.poll(stream.since(0)).appends for f in files]
    assert len(told) == 2 and told[0] in {f.path for f in two.snapshot().files}


def test_the_first_rows_of_a_catalog_come_in_a_transaction(lake: WriterLake) -> None:
    table = _table(lake)
    with lake.db.writer_transaction() as tx:
        tx.append("t", [{"n": 1}, {"n": 2}])
        tx.delete("t", "n = 2")
        assert _values(tx.table("t")) == [1]
    assert _values(table) == [1] == _values(lake.connect().table("t"))
    assert _parts(table) == [2] and _version(lake, max(_objects(lake))) == 2


def test_streams_deliver_rows_once_whatever_became_of_them(lake: WriterLake) -> None:
    table = _table(lake)
    table.append([{"n": 1}])
    table.append([{"n": 2}, {"n": 3}])
    table.delete("n = 3")
    table.merge()
    table.append([{"n": 4}])
    stream = table.journal.stream()
    first = stream.poll(stream.since(0))
    assert [sum(f.rows or 0 for f in files) for files in first.appends] == [1, 2, 1], "folded ones, too"
    again = table.journal.stream().between(stream.since(0), first.offset)
    assert [len(f.deletes) for f in again.files] == [0, 1, 0]
    assert not stream.poll(first.offset).appends
    assert table.append([{"n": 9}], batch_id="b").version == table.append([{"n": 9}], batch_id="b").version


def test_other_writers_read_rows_and_leave_them(lake: WriterLake) -> None:
    table = _table(lake, partition_by=["k"])
    table.append([{"k": 1, "n": 1}, {"k": 2, "n": 2}])
    other = lake.connect("other")
    theirs = other.table("t")
    theirs.append([{"k": 1, "n": 3}])
    assert _values(theirs) == [1, 2, 3]
    done = theirs.delete("n > 0", soft=False)
    assert (done.foreign_files, _values(theirs)) == (2, [1, 2])
    assert theirs.delete("n = 1").foreign_files == 1 and theirs.delete("n = 7").foreign_files == 0
    assert theirs.merge(only="inlined").version is None
    theirs.append([{"k": 1, "n": 4}])
    theirs.merge()
    assert _parts(theirs) == [2], "the first writer's"
    assert theirs.overwrite([{"k": 1, "n": 5}]).foreign_files == 2
    assert _values(table) == [1, 2, 5]
    with pytest.raises(firn.UnsupportedError, match="each writer its own"):
        theirs.scan().uris()
    other.close()
    table.merge()
    assert len(theirs.scan().uris()) == 3


def test_the_writer_folds_before_a_checkpoint(lake: WriterLake) -> None:
    table = _table(lake, partition_by=["k"], properties={"checkpoint_every": 6})
    other = lake.create("other", properties={**INLINE, "checkpoint_every": 6})
    for n in range(2):
        table.append([{"k": k, "n": n} for k in range(2)])
        other.append([{"n": n}])
    assert table.history()[-1].op == "fold" or table.history()[-1].op == "transaction"
    assert not _parts(table) and not _parts(other) and len(lake.stored("t")) == 2
    assert sorted(_values(table)) == [0, 0, 1, 1] and _values(other) == [0, 1]
    (checkpoint,) = lake.checkpoints(table)
    assert _version(lake, checkpoint) == 2
    state = History(lake.db.bucket, _layout(lake)).load().state
    assert state.head.revision == 7 == int(checkpoint.rpartition("/")[2][:20])
    for n in range(3):
        table.append([{"k": 0, "n": n}])
    table.checkpoint()
    assert table.history()[-1].op == "fold" and not _parts(table)
    assert len(lake.checkpoints(table)) == 2


def test_a_fold_reads_all_writers_once() -> None:
    lake = WriterLake()
    table, other = _table(lake, partition_by=["k"]), lake.create("other", properties=INLINE)
    lake.connect("b").table("t").append([{"k": 0, "n": 0}])
    table.scan().count()
    for each in (table, other):
        each.append([{"k": k, "n": k} for k in range(3)])
    assert isinstance(table.journal, WriterJournal)
    own = table.journal.own
    assert _requests(table, own.fold) == {"put": 3 + 1 + 2, "get": 1, "list": 3}, (
        "4 files, 2 writers, 1 commit"
    )
    assert _requests(table, own.fold) == {}


def test_the_writer_folds_many_bytes(lake: WriterLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(lake)
    monkeypatch.setattr(local_writer, "FOLD_BYTES", 300)
    for n in range(9):
        table.append([{"n": n, "s": "x" * 90}])
    assert _values(table) == [*range(9)] and len(lake.stored("t")) == 3 and _parts(table) == []


def test_the_writer_folds_many_commits_as_its_connection_closes(
    lake: WriterLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_writer, "CLOSING_PARTS", 3)
    table = _table(lake)
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    table.delete("n = 2")
    before = lake.db.bucket.counters.as_dict()
    lake.db.close()
    lake.connect().close()  # which has not read or written anything of it
    assert _parts(lake.connect().table("t")) == [1, 1]
    assert not any(lake.db.bucket.counters.since(before).values())
    again = lake.connect()  # of many processes that append once, some fold what all have left
    again.table("t").append([{"n": 3}])
    again.close()
    fresh = lake.connect().table("t")
    assert _values(fresh) == [1, 3] and not _parts(fresh) and fresh.history()[-1].op == "fold"
    again.close()


def test_the_writer_folds_large_rows_as_its_connection_closes(
    lake: WriterLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_writer, "CLOSING_BYTES", 300)
    _table(lake).append([{"n": 1, "s": "x" * 300}])
    lake.db.close()
    assert not _parts(lake.connect().table("t"))


def test_a_fold_that_fails_is_no_error_and_rests(lake: WriterLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(lake)
    monkeypatch.setattr(local_writer, "FOLD_BYTES", 1)
    tries = []

    def failing(self: Federation) -> Any:
        tries.append(1)
        raise firn.CorruptObjectError("some writer's catalog is damaged")

    table.append([{"n": 0}])
    assert not _parts(table)
    with monkeypatch.context() as broken:
        broken.setattr(local_writer.OwnWriter, "load", failing)
        for n in (1, 2, 3):
            table.append([{"n": n}])
    assert len(tries) == 1
    monkeypatch.setattr(local_writer, "CLOSING_PARTS", 3)
    lake.db.close()
    assert _values(lake.connect().table("t")) == [0, 1, 2, 3] and not _parts(lake.connect().table("t"))


def test_a_fold_leaves_out_tables_that_a_thread_changes(lake: WriterLake) -> None:
    table, other = _table(lake), lake.create("other", properties=INLINE)
    for each in (table, other):
        each.append([{"n": 1}])
    assert isinstance(table.journal, WriterJournal)
    own = table.journal.own
    entered, done = threading.Event(), threading.Event()

    def change() -> None:
        with table.journal.exclusive("merge"):
            entered.set()
            done.wait(60)

    thread = threading.Thread(target=change)
    thread.start()
    entered.wait(60)
    own.fold()
    assert _parts(table) == [1] and not _parts(other)
    done.set()
    thread.join()
    with table.journal.exclusive("merge"):
        own.fold()  # of a commit within this thread's own change
    assert _parts(table) == [1]
    own.fold()
    assert not _parts(table)


def test_a_fold_leaves_out_tables_that_a_transaction_has_changed(lake: WriterLake) -> None:
    table, other = (
        lake.create(name, properties={**INLINE, "checkpoint_every": 3}) for name in ("t", "other")
    )
    for each in (table, other):
        each.append([{"n": 1}, {"n": 2}])
    with lake.db.writer_transaction() as tx:
        tx.delete("t", "n = 1")
        tx.append("other", [{"n": 3}])
        for n in range(4, 8):
            table.append([{"n": n}])
        assert _parts(table) and not _parts(other)
    assert _values(table) == [2, 4, 5, 6, 7] and _values(other) == [1, 2, 3]
    with pytest.raises(RuntimeError), lake.db.writer_transaction() as tx:
        tx.table("t").merge()
        raise RuntimeError
    lake.db.close()
    assert not _parts(lake.connect().table("t")), "whatever became of the transactions"


def test_many_bytes_of_a_table_that_is_changed_fold_no_other_at_each_commit(
    lake: WriterLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = _table(lake), lake.create("other", properties=INLINE)
    table.append([{"n": n} for n in range(50)])
    monkeypatch.setattr(local_writer, "FOLD_BYTES", 100)
    with lake.db.writer_transaction() as tx:
        tx.delete("t", "n = 1")
        for n in range(4):
            other.append([{"n": n}])
        assert [commit.op for commit in other.history()].count("fold") == 1
    assert isinstance(table.journal, WriterJournal)
    table.journal.own.fold()
    assert not _parts(table) and not _parts(other)


def test_prune_keeps_claims_until_their_rows_are_folded() -> None:
    lake = WriterLake()
    table = _table(lake)
    for n in range(6):
        table.append([{"n": n}])
    table.delete("n = 5")
    lake.db.prune("0s")
    transactions = [k for k in _objects(lake) if k.endswith(".transaction")]
    claims = [k for k in _objects(lake) if "/claims/" in k]
    assert len(transactions) < 4 and min(int(k[-20:]) for k in claims) == 2
    assert lake.db.rebuild().healthy
    for info in lake.db.bucket.list(_layout(lake).transactions_prefix).objects:
        lake.db.bucket.delete(info.key)
    fresh = lake.connect()
    assert not fresh.rebuild().healthy
    assert _values(fresh.table("t")) == [0, 1, 2, 3, 4]
    fresh.table("t").merge(only="inlined")
    lake.db = fresh
    lake.age()
    claims = [k for k in _objects(lake) if "/claims/" in k]
    first = min(int(k.rpartition("/")[2][:20]) for k in _objects(lake) if k.endswith(".transaction"))
    assert min(int(k[-20:]) for k in claims) == first, "folded at the floor"


@pytest.mark.parametrize("first", [True, False])
def test_claims_that_prune_kept_are_no_damage(first: bool) -> None:
    """Of a writer whose first revision has rows, for one."""
    lake = WriterLake()
    table = _table(lake)
    other = lake.connect("other")
    theirs = other.table("t")
    if not first:
        theirs.alter(comment="x")
    for n in range(5):
        theirs.append([{"n": n}])
    other.prune("0s")
    assert other.rebuild().healthy and _values(table) == [0, 1, 2, 3, 4]
    assert firn.connect(lake.url).table("t").scan().count() == 5


def test_a_lost_catalog_has_its_rows_back(lake: WriterLake) -> None:
    table = _table(lake, partition_by=["k"])
    table.append([{"k": 1, "n": 0}])
    for n in range(1, 4):
        table.append([{"k": n % 2, "n": n}])
    table.delete("n = 1")
    table.merge(only="inlined")
    for n in range(4, 7):
        table.append([{"k": n % 2, "n": n}])
    table.delete("n = 4 OR n = 2")
    table.append([{"k": 0, "n": 7}])
    version = table.snapshot().version
    root = Path(lake.url) / "w/db"
    shutil.rmtree(root / "transactions")
    (root / "_firn/newest-checkpoint").unlink(missing_ok=True)
    fresh = lake.connect()
    report = fresh.rebuild()
    rebuilt = fresh.table("t")
    assert _values(rebuilt) == [0, 3, 5, 6, 7] and not report.missing
    assert _values(rebuilt, at=version) == [0, 3, 5, 6, 7] and _values(rebuilt, at="w=5") == [0, 1, 2, 3]
    assert fresh.rebuild().healthy
    rebuilt.append([{"k": 0, "n": 8}])
    rebuilt.merge()
    assert _values(lake.connect().table("t")) == [0, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("lost", range(1, 9))
def test_a_lost_transaction_has_its_rows_back(lost: int, lake: WriterLake) -> None:
    """The one that upgrades the catalog included."""
    table = lake.create("t")
    table.append([{"n": 0}])
    table.alter(set_properties={"inline": "64KB"})
    table.append([{"n": 1}])
    table.append([{"n": 2}, {"n": 3}])
    table.delete("n = 2")
    table.merge(only="inlined")
    table.append([{"n": 4}])
    table.append([{"n": 5}])
    root = Path(lake.url) / "w/db"
    for path in root.glob(f"transactions/{lost:020d}.*.transaction"):
        path.unlink()
    fresh = lake.connect()
    assert fresh.rebuild().rebuilt
    assert _values(fresh.table("t")) == [0, 1, 3, 4, 5]
    assert fresh.rebuild().healthy
    lake.db = fresh
    lake.age()
    assert _values(lake.connect().table("t")) == [0, 1, 3, 4, 5]


def test_rows_are_erased_with_their_history(lake: WriterLake) -> None:
    table = _table(lake)
    table.append([{"n": 1, "who": "person-1"}, {"n": 2, "who": "person-2"}], batch_id="b")
    table.append([{"n": 3, "who": "person-3"}])
    table.checkpoint()
    table.append([{"n": 4, "who": "person-1"}])
    table.delete("who = 'person-1'", soft=False)
    lake.forget(table)
    lake.db.sweep("0s")
    for info in lake.db.bucket.list("").objects:
        body = lake.db.bucket.get(info.key).data
        assert b"person-1" not in body and _b64(b"person-1") not in body, info.key
    assert _values(table, "who") == ["person-2", "person-3"]


def _b64(text: bytes) -> bytes:
    import base64

    return base64.b64encode(text)[:8]


def test_a_marker_loses_rows_before_files_that_replaced_them_go() -> None:
    """By PUT and LIST: else a rebuild would have the rows twice."""
    lake = ListingWriterLake()
    table = _table(lake)
    for n in range(3):
        table.append([{"n": n}])
    table.merge(only="inlined")
    table.append([{"n": 3}])
    table.merge()
    order: list[str] = []
    bucket = lake.db.bucket
    lake.age()
    delete, delete_many = bucket.delete, bucket.delete_many
    bucket.delete = lambda key: (order.append(key), delete(key))[1]  # type: ignore[method-assign]
    bucket.delete_many = lambda keys: (order.extend(keys), delete_many(keys))[1]  # type: ignore[method-assign]
    lake.db.sweep("0s")
    first = next(at for at, key in enumerate(order) if "/data/" in key)
    markers = [
        at for at, key in enumerate(order) if "/markers/" in key and 1 < int(key.split("/")[-1][:20]) < 5
    ]
    assert len(markers) >= 2 and max(markers) < first
    assert _values(lake.connect().table("t")) == [0, 1, 2, 3]


def test_types_are_the_same_behind_the_catalog(lake: WriterLake) -> None:
    rows = pa.table(
        {
            "d": pa.array([None, 1.5, float("nan")]),
            "l": pa.array([[1], None, []], pa.list_(pa.int64())),
            "t": pa.array([0, None, 5], pa.timestamp("us")),
        }
    )
    table = _table(lake)
    table.append(rows)
    fresh = lake.connect().table("t")
    before = fresh.scan().to_arrow()
    table.checkpoint()
    assert before.schema == fresh.scan().to_arrow().schema
    assert str(before) == str(table.scan(at="w=2").to_arrow())
    assert str(before["d"]) == str(fresh.scan().to_arrow()["d"])


def test_rows_are_shown_and_checked(lake: WriterLake) -> None:
    table = _table(lake)
    table.append([{"n": 1, "s": "x"}, {"n": 2, "s": None}])
    table.append([{"n": 3, "s": "y"}])
    lake.db.checkpoint()
    table.append([{"n": 4, "s": "z"}])
    table.delete("n = 4")
    first = sorted(key for key in _objects(lake) if key.endswith(".transaction"))[1]
    shown = dump_object(lake.db.bucket, first)
    assert list(shown.sections["rows of t"]) == ['{"n":1,"s":"x"}', '{"n":2,"s":null}'] and not shown.problems
    assert shown.fields["format version"] == 2 and any(
        "rows of t" in line for line in shown.sections["actions"]
    )
    (key,) = lake.checkpoints(table)
    assert "files of t" in dump_object(lake.db.bucket, key).sections
    healthy = check(lake.connect())
    assert not healthy.problems and healthy.checked["transactions with rows"] == 3
    assert "rows still in the log" in str(render_report(lake.connect(), tables=["t"]))
    dropped = lake.db.drop_table("t")
    assert dropped.objects == () and not check(lake.connect()).problems


def test_rows_that_cant_be_decoded_are_damage_that_names_the_object(lake: WriterLake) -> None:
    table = lake.create("t", schema={"n": "BIGINT"}, properties=INLINE)
    table.append([{"n": 2}])
    key = max(key for key in _objects(lake) if key.endswith(".transaction"))
    transaction = decode_transaction(lake.db.bucket.get(key).data, where=key)
    upgrade, add = transaction.actions
    assert isinstance(add, Add)
    for body, why in (
        (b'{"n":1,"v":[["a"]]}', "the column 'n'"),
        (b'{"n":1,"v":[[1,2]]}', "hasn't 1 values"),
    ):
        rows = InlinedRows.of_body(dict(add.columns), body, 1, "")
        file = add.file._replace(size=len(body), extra={**(add.file.extra or {}), "inlined": rows})
        bad = replace(transaction, actions=[upgrade, replace(add, file=file)])
        lake.db.bucket.put(key, encode_transaction(bad))
        with pytest.raises(firn.CorruptObjectError, match=why) as error:
            lake.connect().table("t").scan().to_arrow()
        assert key in str(error.value)
        assert any(key in str(problem) for problem in check(lake.connect()).problems)


class Twins:
    """Two databases on which the same is done, one with `inline`: each has a table with a key and one without, of two
    writers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"twins {seed}")
        self.urls = [f"memory://twins-{seed}-{secrets.token_hex(4)}/db" for _ in range(2)]
        self.dbs = [
            {w: firn.connect(url, writer=w, options=UNCLAIMED if seed % 3 == 0 else None) for w in "ab"}
            for url in self.urls
        ]
        for db, inline in zip(self.dbs, ("64KB", 0), strict=True):
            properties = {"inline": inline, "checkpoint_every": 11}
            for name, key in (("plain", None), ("keyed", ["id"])):
                db["a"].create_table(
                    name,
                    journal="writer",
                    schema={"id": "BIGINT", "p": "VARCHAR", "n": "BIGINT"},
                    partition_by=["p"] if key is None else ["bucket(2, id)"],
                    key=key,
                    properties=properties,
                )
        self.versions: list[list[str]] = []
        self.count = 0

    def on(self, writer: str, name: str, verb: Callable[[LakeTable], Any]) -> list[Any]:
        return [verb(db[writer].table(name)) for db in self.dbs]

    def row(self) -> dict[str, Any]:
        self.count += 1
        return {"id": self.random.randrange(12), "p": self.random.choice("xyz"), "n": self.count}

    def act(self) -> None:
        rng, writer = self.random, self.random.choice("aab")
        n, p = rng.randrange(self.count + 2), rng.choice("xyz")
        rows = [self.row() for _ in range(rng.randint(1, 3))]
        name = rng.choice(["plain", "plain", "keyed"])
        either: list[Callable[[LakeTable], Any]] = [lambda t: t.append(rows)] * 6
        either += [
            lambda t: t.merge(),
            lambda t: t.merge(only="inlined"),
            lambda t: t.delete(f"n % 7 = {n % 7}"),
        ]
        plain: list[Callable[[LakeTable], Any]] = [
            lambda t: t.delete(f"n = {n} OR p = '{p}' AND n % 3 = 0", soft=False),
            lambda t: t.delete(f"n = {n} OR p = '{p}' AND n % 3 = 0", soft=True),
            lambda t: t.rewrite(f"n <> {n}"),
            lambda t: t.remove_partitions(f"p = '{p}'"),
            lambda t: t.overwrite(rows[:1], where=f"n = {rows[0]['n']}"),
            lambda t: t.overwrite(rows[:1], partitions="touched"),
            lambda t: t.merge_into(rows, on=["n"], when_matched="update", when_not_matched="insert"),
        ]
        keyed: list[Callable[[LakeTable], Any]] = [
            lambda t: t.update(f"n % 5 = {n % 5}", {"p": "'new'"}),
            lambda t: t.delete_keys([{"id": rows[0]["id"]}]),
        ]
        if rng.random() < 0.15:
            for db in self.dbs:
                with db[writer].writer_transaction() as tx:
                    tx.append("plain", rows)
                    tx.table("keyed").upsert(rows[:1])
                    tx.delete("plain", f"n = {rows[-1]['n']}")
        elif rng.random() < 0.1:
            for db in self.dbs:
                db[writer].close()
            for at, url in enumerate(self.urls):
                options = self.dbs[at][writer].options
                self.dbs[at][writer] = firn.connect(url, writer=writer, options=options)
        else:
            self.on(writer, name, rng.choice(either + (plain if name == "plain" else keyed)))

    def check(self) -> None:
        for name in ("plain", "keyed"):
            one, other = self.on("b", name, _content)
            assert one == other, name
            counts = self.on("a", name, lambda t: (t.scan().count(), t.scan(where="n % 2 = 0").count()))
            assert counts[0] == counts[1]
        self.versions.append([db["a"].table("plain").version for db in self.dbs])


def _content(table: LakeTable, at: str | None = None) -> list[tuple[Any, ...]]:
    rows = table.scan(at=at).to_arrow().to_pylist()
    return sorted((row["id"], row["p"], row["n"]) for row in rows)


@pytest.mark.parametrize("seed", seeds(30, short=2))
def test_rows_are_as_files_are(seed: int) -> None:
    twins = Twins(seed)
    inlined = 0
    for _ in range(25):
        twins.act()
        twins.check()
        inlined += bool(_parts(twins.dbs[0]["a"].table("plain")))
    for one, other in twins.versions[::6]:
        tables = [db["b"].table("plain") for db in twins.dbs]
        assert _content(tables[0], one) == _content(tables[1], other)
    past = twins.random.choice(twins.versions)
    restored = [db["a"].table("plain") for db in twins.dbs]
    for table, version in zip(restored, past, strict=True):
        table.restore(version)
    assert _content(restored[0]) == _content(restored[1])
    assert inlined
    assert not check(twins.dbs[0]["a"]).problems
