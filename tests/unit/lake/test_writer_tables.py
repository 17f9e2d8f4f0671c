"""Lake tables of several writers: one union, one vector of revisions, and what may go wrong with one of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.journal.model import Commit
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.federation.definition import WriterDefinition
from firn.journal.writer.format.actions import Define
from firn.journal.writer.format.layout import WriterLayout, new_uuid
from firn.journal.writer.format.messages import encode_transaction
from firn.journal.writer.history.history import History
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.lake.write.append import write
from moments import append_late

Connect = Callable[..., firn.Database]


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(found, key=lambda row: [repr(value) for value in row.values()])


def ids(table: LakeTable, **scan: Any) -> list[int]:
    return sorted(table.scan(columns=["id"], **scan).to_arrow()["id"].to_pylist())


# -- the union


def test_a_table_is_what_all_writers_added_to_it(connect: Connect) -> None:
    a = connect("a").create_table("t", journal="writer")
    a.append([{"id": 1}])
    b = connect("b").table("t")
    b.append([{"id": 2}])
    reader = connect()
    assert reader.tables() == ["t"]
    assert ids(reader.table("t")) == ids(a) == ids(b) == [1, 2]
    assert [(w.name, w.revision, w.health) for w in reader.writers()] == [("a", 2, "ok"), ("b", 1, "ok")]
    assert reader.table("t").snapshot().version == "a=2,b=1"
    assert reader.writers()[1].time == b.history()[-1].time


def test_readers_need_no_writer_and_change_nothing(connect: Connect) -> None:
    connect("a").create_table("t", journal="writer").append([{"id": 1}])
    table = connect().table("t")
    for change in (
        lambda: table.append([{"id": 2}]),
        lambda: table.delete("id = 1"),
        lambda: table.merge(),
        lambda: connect().create_table("u", journal="writer"),
        lambda: connect().writer_transaction(),
    ):
        with pytest.raises(firn.InvalidInputError, match=r"firn\.connect\(url, writer=ID\)"):
            change()
    assert ids(table) == [1]


def test_columns_are_united_in_the_order_of_their_first_commits(connect: Connect) -> None:
    table = connect("b").create_table("t", journal="writer", schema={"id": "BIGINT"})
    table.append([{"id": 1, "late": True}])
    connect("a").table("t").append(pa.table({"id": pa.array([2], pa.int32()), "early": ["x"]}))
    found = connect().table("t")
    assert found.schema().names == ["id", "late", "early"]
    assert found.schema().field("id").type == pa.int64()
    assert rows(found) == [
        {"id": 1, "late": True, "early": None},
        {"id": 2, "late": None, "early": "x"},
    ]


def conflicting(connect: Connect, on_conflict: str | None) -> LakeTable:
    """Two writers that knew nothing of each other's column."""
    properties = {"on_conflict": on_conflict} if on_conflict else {}
    first = connect("a").create_table("t", journal="writer", properties=properties)
    second = connect("b").table("t")
    first.append([{"id": 1, "v": dt.date(2001, 1, 1)}])
    append_late(second, [{"id": 2, "v": 2.5}])
    return connect().table("t")


def test_types_that_conflict_can_be_an_error_that_names_both_files(connect: Connect) -> None:
    table = conflicting(connect, "error")
    with pytest.raises(firn.SchemaConflictError) as error:
        table.scan().to_arrow()
    assert "a/prod/data/t/" in str(error.value) and "b/prod/data/t/" in str(error.value)


def test_types_that_conflict_can_be_widened(connect: Connect) -> None:
    assert rows(conflicting(connect, "widen"))[1] == {"id": 2, "v": "2.5"}


def test_statistics_of_a_widened_column_are_compared_as_its_values_are(connect: Connect) -> None:
    """As numbers 9 is less than 10, as texts it is greater: a file may be left out by neither rule alone."""
    first = connect("a").create_table("t", journal="writer", properties={"on_conflict": "widen"})
    second = connect("b").table("t")
    first.append([{"id": 9, "v": 9}, {"id": 10, "v": 10}])
    append_late(second, [{"id": 8, "v": "80"}])
    found = connect().table("t")
    assert ids(found, where="v > '8'") == [8, 9]
    assert ids(found, where="v < '5'") == [10]
    assert ids(found, where="v = '10'") == [10]


def test_two_unicode_forms_of_one_text_are_two_partitions(connect: Connect) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    table = connect("a").create_table("t", journal="writer", partition_by=["place"])
    table.append([{"id": 1, "place": composed}, {"id": 2, "place": decomposed}])
    assert len({file.path.rpartition("/")[0] for file in table.snapshot().files}) == 2
    for name in ("transactions", "claims"):
        table.bucket.delete_many([i.key for i in table.bucket.list(f"a/prod/{name}/").objects])
    connect("a").rebuild()
    found = connect().table("t")
    assert {row["id"]: row["place"] for row in rows(found)} == {1: composed, 2: decomposed}
    assert ids(found, where=f"place = '{decomposed}'") == [2]


@pytest.mark.parametrize("on_conflict", [None, "skip-file"])
def test_types_that_conflict_are_read_side_by_side(connect: Connect, on_conflict: str | None) -> None:
    table = conflicting(connect, on_conflict)
    with pytest.warns(firn.DegradedReadWarning, match="b/prod/data/t/"):
        assert rows(table) == [
            {"id": 1, "v": dt.date(2001, 1, 1), "v~double": None},
            {"id": 2, "v": None, "v~double": 2.5},
        ]


# -- time travel


def test_a_time_a_vector_or_a_revision(connect: Connect) -> None:
    a = connect("a").create_table("t", journal="writer", schema={"id": "BIGINT"})
    first = a.append([{"id": 1}])
    between = a.snapshot().time
    assert between is not None
    while dt.datetime.now(dt.timezone.utc) <= between + dt.timedelta(milliseconds=1):
        pass
    connect("b").table("t").append([{"id": 2}])
    a.append([{"id": 3}])
    reader = connect().table("t")
    assert ids(reader, at=between) == [1]
    assert ids(reader, at="a=3") == [1, 3]
    assert ids(reader, at="a=2,b=1") == [1, 2]
    assert ids(a, at=2) == ids(a, at=first.version) == [1]
    assert ids(reader, at="0") == []
    version = reader.snapshot().version
    assert version == "a=3,b=1"
    assert ids(reader, at=version) == [1, 2, 3]


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        ("a=9", firn.NotFoundError, "no revision 9; the newest is 2"),
        ("c=1", firn.NotFoundError, "no writer 'c'; there are: a, b"),
        ("a=1;b=2", firn.InvalidInputError, 'like "a=3,b=7"'),
        ("a=1,b=2,a=1", firn.InvalidInputError, "names the writer 'a' twice"),
        ("a=x", firn.InvalidInputError, 'like "a=3,b=7"'),
        (2, firn.InvalidInputError, "has 2 writers"),
        (True, firn.InvalidInputError, "must be a text, a whole number, a datetime"),
        ("yesterday", firn.InvalidInputError, "yesterday"),
    ],
)
def test_an_at_that_says_nothing(connect: Connect, at: Any, error: type[Exception], message: str) -> None:
    connect("a").create_table("t", journal="writer").append([{"id": 1}])
    connect("b").table("t").append([{"id": 1}])
    with pytest.raises(error, match=message):
        connect().table("t").snapshot(at)


# -- one writer in trouble


def damage(connect: Connect, writer: str) -> str:
    """Flip a byte in a writer's newest transaction; its key."""
    bucket = connect().bucket
    history = History(bucket, WriterLayout(connect().prefix, writer, "prod"))
    head = history.load().head
    assert head.uuid is not None
    key = history.layout.transaction_key(head.revision, head.uuid)
    data = bytearray(bucket.get(key).data)
    data[-1] ^= 1
    bucket.put(key, bytes(data))
    return key


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_a_broken_writer_is_left_out_and_told(connect: Connect) -> None:
    connect("a").create_table("t", journal="writer").append([{"id": 1}])
    connect("b").table("t").append([{"id": 2}])
    key = damage(connect, "b")
    reader = connect()
    assert ids(reader.table("t")) == [1]
    (warning,) = reader.table("t").snapshot().warnings
    assert "writer b is left out" in warning and key.rpartition("/")[2] in warning
    info = reader.writers()[1]
    assert (info.name, info.health) == ("b", "broken") and "firn rebuild" in info.detail
    assert connect("a").table("t").append([{"id": 3}]).version == "a=3"
    with pytest.raises(firn.CorruptObjectError, match="b/prod/transactions"):
        connect(strict=True).table("t")
    with pytest.raises(firn.CorruptObjectError, match="b/prod/transactions"):
        connect("b").table("t").append([{"id": 4}])


NO_CLAIMS = {"conditional_put": "disabled"}


def put_rival(connect: Connect, writer: str) -> tuple[str, str]:
    """A second transaction at the head's revision, as two processes under one id may leave it; both uuids."""
    bucket = connect().bucket
    history = History(bucket, WriterLayout(connect().prefix, writer, "prod"))
    last = history.load() and history.transactions()[-1]
    rival = replace(last, actions=(), commit=replace(last.commit, uuid=new_uuid()))
    bucket.put(history.layout.transaction_key(rival.revision, rival.uuid), encode_transaction(rival))
    return last.uuid, rival.uuid


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_a_forked_writer_is_read_up_to_the_fork_and_cant_write(connect: Connect) -> None:
    a = connect("a", options=NO_CLAIMS)
    table = a.create_table("t", journal="writer")
    table.append([{"id": 1}])
    connect("b").table("t").append([{"id": 2}])
    table.append([{"id": 3}])
    ours, rival = put_rival(connect, "a")
    reader = connect()
    assert ids(reader.table("t")) == [1, 2]
    (warning,) = [w for w in reader.table("t").snapshot().warnings if "writer a has" in w]
    assert "an open fork at revision 3" in warning and "firn repair --keep" in warning
    info = reader.writers()[0]
    assert (
        (info.revision, info.health) == (2, "fork") and ours[:8] in info.detail and rival[:8] in info.detail
    )
    with pytest.raises(firn.ForkError, match="this connection is strict"):
        connect(strict=True).table("t")
    with pytest.raises(firn.ForkError, match="firn repair --keep"):
        connect("a", options=NO_CLAIMS).table("t").append([{"id": 4}])
    assert connect("b").table("t").append([{"id": 5}]).version == "b=2"


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_a_reader_that_saw_a_side_of_a_fork_says_so(connect: Connect) -> None:
    connect("a", options=NO_CLAIMS).create_table("t", journal="writer").append([{"id": 1}])
    reader = connect()
    table = reader.table("t")
    assert ids(table) == [1]
    put_rival(connect, "a")
    (warning,) = table.snapshot().warnings
    assert "writer a is left out" in warning and "fork" in warning
    with pytest.raises(firn.ForkError):
        table.snapshot("a=2")


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_a_catalog_that_was_deleted_isnt_taken_for_a_new_one(connect: Connect) -> None:
    connect("a").create_table("t", journal="writer").append([{"id": 1}])
    for number in range(3):
        connect("b").table("t").append([{"id": 10 + number}])
    bucket = connect().bucket
    gone = [i.key for i in bucket.list("b/prod/").objects if "/transactions/" in i.key or "/claims/" in i.key]
    bucket.delete_many(gone)
    reader = connect()
    assert ids(reader.table("t")) == [1]
    assert reader.writers()[1].health == "broken" and "firn rebuild --writer b" in reader.writers()[1].detail
    for attempt in (
        lambda: connect("b").table("t").append([{"id": 2}]),
        lambda: connect(strict=True).tables(),
    ):
        with pytest.raises(
            firn.CorruptObjectError, match=r"no transaction left, though .*data/t/.* the catalog was"
        ):
            attempt()


@pytest.mark.parametrize("left", ["claims", "markers", "_firn", "data"])
def test_whatever_is_left_of_a_catalog_tells_that_it_was(connect: Connect, left: str) -> None:
    table = connect("a").create_table("t", journal="writer", schema={"id": "BIGINT"})
    table.append([{"id": 1}])
    table.delete("true")
    table.checkpoint()
    bucket = connect().bucket
    bucket.delete_many([i.key for i in bucket.list("a/").objects if f"/{left}/" not in i.key])
    (info,) = connect().writers()
    assert info.health == "broken" and f"/{left}/" in info.detail


def test_a_first_commit_under_way_is_no_loss(connect: Connect) -> None:
    connect("a").create_table("t", journal="writer", schema={"id": "BIGINT"})
    table = connect("b").table("t")
    ticket = table.journal.begin_append()
    written, _ = write(table.context, [{"id": 1}], ticket.namer)
    assert [(w.name, w.revision, w.health) for w in connect().writers()] == [("a", 1, "ok"), ("b", 0, "ok")]
    assert ids(connect(strict=True).table("t")) == []
    ticket.commit(Commit("append", written.files, columns=written.columns))
    assert ids(connect().table("t")) == [1]


# -- names


def test_tables_and_writers_share_one_name_space(connect: Connect) -> None:
    a = connect("a")
    a.create_table("own-log")
    a.create_table("t", journal="writer")
    for name, options in (("t", {}), ("t", {"journal": "writer"}), ("own-log", {"journal": "writer"})):
        with pytest.raises(firn.TableExistsError, match=name):
            connect("a").create_table(name, **options)
    for options in ({}, {"journal": "writer"}):
        with pytest.raises(firn.TableExistsError, match=r"name space|is there already"):
            connect("b").create_table("a", **options)
    with pytest.raises(firn.TableExistsError, match="name space"):
        connect("b").create_table("b", journal="writer")
    with pytest.raises(firn.InvalidInputError, match="'own-log' is a table"):
        connect("own-log").create_table("u", journal="writer")
    assert connect().tables() == ["own-log", "t"]


@pytest.mark.parametrize("writer", ["", "a/b", "..", "_a", ".a", "é", "a" * 101, "a b", 7])
def test_a_writer_id_that_cant_be(connect: Connect, writer: Any) -> None:
    with pytest.raises(firn.InvalidInputError, match="writer name"):
        connect(writer)


def test_the_database_keeps_its_name_under_another_url(tmp_path: Path) -> None:
    firn.connect(tmp_path / "prod", writer="a").create_table("t", journal="writer").append([{"id": 1}])
    (tmp_path / "prod").rename(tmp_path / "moved")
    moved = firn.connect(tmp_path / "moved", writer="b")
    moved.table("t").append([{"id": 2}])
    assert ids(firn.connect(tmp_path / "moved").table("t")) == [1, 2]
    assert (tmp_path / "moved" / "b" / "prod" / "transactions").is_dir()


# -- definitions


def test_the_earliest_definition_counts_and_the_other_is_told(connect: Connect) -> None:
    a, b = connect("a"), connect("b")
    table = a.create_table("t", journal="writer", partition_by=["id"])
    layout = WriterLayout(connect().prefix, "b", "prod")
    later = WriterDefinition(LakeDefinition("t", journal="writer").encode(), 2**50, "b")
    Handle(History(b.bucket, layout)).commit([Define("t", later.encode())], op="create")
    found = connect().table("t")
    assert [f.source for f in found.partition_spec.fields] == ["id"]
    (warning,) = found.snapshot().warnings
    assert "t is defined by the writer a and, otherwise and later, by b" in warning
    connect("b").table("t").append([{"id": 7}])  # with the definition that counts, as it brings a column
    found = connect().table("t")
    assert ids(found) == [7] and len(found.partitions()) == 1 and not found.snapshot().warnings
    assert table.context.definition == found.context.definition


def test_a_writer_drops_its_own_part(connect: Connect) -> None:
    a = connect("a")
    a.create_table("t", journal="writer").append([{"id": 1}])
    b = connect("b")
    b.table("t").append([{"id": 2}])
    own = tuple(f.path for f in connect().table("t").snapshot("a=2").files)
    before = [i.etag for i in a.bucket.list("").objects]
    planned = a.drop_table("t", dry_run=True)
    assert planned == firn.DropReport(own, planned.bytes, "a", ("b",), dry_run=True)
    assert planned.bytes == sum(a.bucket.head(path).size for path in own)
    assert [i.etag for i in a.bucket.list("").objects] == before
    assert a.drop_table("t") == replace(planned, dry_run=False)
    assert ids(connect().table("t")) == [2]
    assert b.drop_table("t").still_has == ()
    assert connect().tables() == []
    with pytest.raises(firn.TableNotFoundError, match="no table 't'"):
        connect().table("t")
    a.create_table("t", journal="writer").append([{"id": 3}])
    assert ids(connect().table("t")) == [3]


def test_a_writer_without_a_part_drops_nothing(connect: Connect) -> None:
    connect("a").create_table("t", journal="writer").append([{"id": 1}])
    c = connect("c")
    before = [i.key for i in c.bucket.list("").objects]
    for dry_run in (True, False):
        assert c.drop_table("t", dry_run=dry_run) == firn.DropReport((), 0, "c", ("a",), dry_run)
        if dry_run:
            assert [i.key for i in c.bucket.list("").objects] == before
    with pytest.raises(firn.InvalidInputError, match="writer"):
        connect().drop_table("t", dry_run=True)


def test_a_dry_run_of_a_drop_sees_what_another_process_of_the_writer_committed(connect: Connect) -> None:
    first, second = connect("a"), connect("a")
    first.create_table("t", journal="writer").append([{"id": 1}])
    second.table("t").append([{"id": 2}])
    assert len(first.drop_table("t", dry_run=True).objects) == 2


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"shared": "icedb"}, "unknown table property 'shared' for the journal 'writer'"),
        ({"lease": "1s"}, "unknown table property 'lease'"),
        ({"checkpoint_every": "often"}, "whole number of transactions"),
        ({"checkpoint_every": -1}, "whole number of transactions"),
        ({"on_conflict": "shrug"}, "on_conflict is 'shrug'"),
        ({"orphan_age": "soon"}, "soon"),
    ],
)
def test_properties_that_a_writers_table_cant_have(
    connect: Connect, properties: dict[str, Any], message: str
) -> None:
    with pytest.raises(firn.InvalidInputError, match=message):
        connect("a").create_table("t", journal="writer", properties=properties)
    assert connect().tables() == []


# -- committing


def test_what_commits_cost(connect: Connect) -> None:
    for options, cost in ((NO_CLAIMS, (3, 2, 0)), ({}, (4, 0, 1))):
        db = connect(f"w{len(options)}", options=options)
        name = f"t{len(options)}"
        table = db.create_table(name, journal="writer", partition_by=["id"])
        table.append([{"id": 1}])
        before = db.bucket.counters.as_dict()
        assert table.append([{"id": 1}, {"id": 2}]).files == 2
        after = db.bucket.counters.as_dict()
        assert tuple(after[v] - before[v] for v in ("put", "list", "get")) == cost
        assert after["head"] == before["head"] and after["delete"] == before["delete"]


def test_a_checkpoint_comes_by_itself_every_so_often(connect: Connect) -> None:
    db = connect("a")
    table = db.create_table("t", journal="writer", properties={"checkpoint_every": 3})
    for number in range(7):
        table.append([{"id": number}])
    keys = [i.key for i in db.bucket.list("a/prod/transactions/").objects]
    assert [k.rpartition("/")[2][:20].lstrip("0") for k in keys if k.endswith("checkpoint")] == ["3", "6"]
    reader = connect()
    assert len(reader.table("t").snapshot().files) == 7
    # the database's name, the table in vain, the hint, the checkpoint, two transactions
    assert reader.bucket.counters.get == 6


def test_without_an_interval_no_checkpoint_comes_by_itself(connect: Connect) -> None:
    db = connect("a")
    table = db.create_table("t", journal="writer", properties={"checkpoint_every": 0})
    for number in range(4):
        table.append([{"id": number}])
    assert not [i for i in db.bucket.list("a/prod/transactions/").objects if i.key.endswith("checkpoint")]
    assert table.checkpoint() == 5, "the table's definition, and four appends"
    assert ids(connect().table("t")) == [0, 1, 2, 3]


def test_a_failing_checkpoint_is_no_failed_append(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    db = connect("a")
    table = db.create_table("t", journal="writer", properties={"checkpoint_every": 1})
    put = db.bucket.put

    def refuse(key: str, *args: Any, **kwargs: Any) -> Any:
        if key.endswith(".checkpoint"):
            raise firn.StoreUnavailableError("the store is slow today")
        return put(key, *args, **kwargs)

    monkeypatch.setattr(db.bucket, "put", refuse)
    assert table.append([{"id": 1}]).rows == 1
    assert ids(connect().table("t")) == [1]


def test_two_connections_under_one_id_take_turns(connect: Connect) -> None:
    """Not meant to be, and safe: whoever was behind starts over from where the other is."""
    one, two = connect("a"), connect("a")
    first = one.create_table("t", journal="writer")
    second = two.table("t")
    for number in range(3):
        first.append([{"id": number}])
        second.append([{"id": number + 10}])
    assert ids(connect().table("t")) == [0, 1, 2, 10, 11, 12]
    with first.journal.exclusive("merge") as session:
        files = session.snapshot.files
        second.delete("id = 1")
        with pytest.raises(firn.ConflictError, match="by another commit of the writer 'a' meanwhile"):
            session.publish(Commit("merge", (), [f.path for f in files]))
    assert ids(connect().table("t")) == [0, 2, 10, 11, 12]


def test_a_batch_happens_once_whoever_repeats_it(connect: Connect) -> None:
    a = connect("a").create_table("t", journal="writer")
    first = a.append([{"id": 1}], batch_id="x")
    again = connect("a").table("t").append([{"id": 1}], batch_id="x")
    other = connect("b").table("t").append([{"id": 1}], batch_id="x")
    assert (again.duplicate, other.duplicate) == (True, True)
    assert again.version == other.version == first.version
    assert ids(connect().table("t")) == [1]


def test_an_append_that_took_too_long_is_refused(connect: Connect) -> None:
    table = connect("a").create_table("t", journal="writer", properties={"orphan_age": "1h"})
    ticket = table.journal.begin_append()
    ticket.backdate(3700)
    with pytest.raises(firn.AppendExpiredError, match="began 3700 s ago"):
        ticket.commit(Commit("append"))


# -- restoring


def test_restore_brings_back_the_own_writers_part(connect: Connect) -> None:
    a = connect("a").create_table("t", journal="writer")
    a.append([{"id": 1}])
    b = connect("b").table("t")
    b.append([{"id": 2}])
    before = a.snapshot().version
    a.delete("id = 1")
    a.append([{"id": 3}])
    b.append([{"id": 4}])
    assert ids(a) == [2, 3, 4]
    a.restore(before)
    assert ids(a) == [1, 2, 4]
    with pytest.raises(firn.InvalidInputError, match="names no revision of 'a'"):
        a.restore("b=1")


def test_restored_and_merged_files_have_the_columns_of_today(connect: Connect) -> None:
    table = connect("a").create_table("t", journal="writer")
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    before = table.snapshot().version
    table.append(pa.table({"id": pa.array([2**40]), "s": ["x"]}))
    table.merge()
    table.restore(before)
    (file,) = table.snapshot().files
    assert pq.read_schema(pa.BufferReader(table.bucket.get(file.path).data)).types == [
        pa.int64(),
        pa.string(),
    ]
    assert "types" not in (file.extra or {})
    assert rows(table) == [{"id": 1, "s": None}]


# -- several tables at once


def test_a_transaction_is_one_revision(connect: Connect) -> None:
    db = connect("a")
    for name in ("cpu", "mem"):
        db.create_table(name, journal="writer").append([{"id": 1}])
    with db.writer_transaction() as tx:
        tx.append("cpu", [{"id": 2}])
        tx.delete("mem", "id = 1")
        tx.append("mem", [{"id": 5}, {"id": 6}])
        tx.delete("mem", "id = 6")
        assert (ids(tx.table("cpu")), ids(tx.table("mem"))) == ([1, 2], [5])
        assert (ids(connect().table("cpu")), ids(db.table("mem"))) == ([1], [1])
    assert tx.version == "a=5"
    assert (ids(connect().table("cpu")), ids(connect().table("mem"))) == ([1, 2], [5])
    assert ids(connect().table("mem"), at="a=4") == [1]
    line = db.table("mem").history()[-1]
    assert (line.op, line.version) == ("transaction", "a=5")
    assert [op["op"] for op in line.summary["ops"]] == ["append", "delete", "append", "delete"]


def test_a_transaction_that_fails_leaves_nothing(connect: Connect) -> None:
    db = connect("a")
    table = db.create_table("t", journal="writer", schema={"id": "BIGINT"})
    with pytest.raises(ZeroDivisionError), db.writer_transaction() as tx:
        tx.append("t", [{"id": 1}])
        raise ZeroDivisionError
    with pytest.raises(firn.InvalidInputError, match="has ended"):
        tx.append("t", [{"id": 2}])
    assert tx.version is None and ids(table) == [] and connect().writers()[0].revision == 1
    with db.writer_transaction() as nothing:
        pass
    assert nothing.version is None and connect().writers()[0].revision == 1


@pytest.mark.parametrize("writer", ["a", "b"])
def test_a_transaction_takes_columns_of_an_alter_since_it_began(connect: Connect, writer: str) -> None:
    """Rows that have such a column would set their values aside, in a type of their own."""
    db = connect("a")
    db.create_table("t", journal="writer", schema={"id": "BIGINT", "x": "BIGINT"}).append([{"id": 1}])
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 2, "x": 2}])
        connect(writer).table("t").alter(rename={"x": "y"}, add={"day": "DATE", "n": ("BIGINT", 7)})
        with pytest.raises(firn.SchemaConflictError, match="'day' is DATE in the table and BIGINT"):
            tx.append("t", [{"id": 3, "day": 3}])
        tx.append("t", [{"id": 3, "day": dt.date(2020, 1, 1), "y": 3}])
        assert ids(tx.table("t")) == [1, 2, 3]
        connect(writer).table("t").alter(rename={"n": "k"})
    table = connect().table("t")
    assert rows(table) == [
        {"id": 1, "y": None, "day": None, "k": 7},
        {"id": 2, "y": 2, "day": None, "k": 7},
        {"id": 3, "y": 3, "day": dt.date(2020, 1, 1), "k": 7},
    ]
    assert not table.conflicts()


def test_a_transaction_that_another_process_overtook(connect: Connect) -> None:
    """Appends move behind it; what was replaced meanwhile can't be replaced again."""
    db = connect("a")
    db.create_table("t", journal="writer").append([{"id": 1}])
    other = connect("a").table("t")
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 2}])
        other.append([{"id": 3}])
    assert tx.version == "a=4" and ids(connect().table("t")) == [1, 2, 3]
    with pytest.raises(firn.ConflictError, match="meanwhile"), db.writer_transaction() as tx:
        tx.delete("t", "id = 1")
        connect("a").table("t").delete("true", soft=False)
    assert ids(connect().table("t")) == []


def test_a_transaction_is_for_tables_of_writers_catalogs(connect: Connect) -> None:
    db = connect("a")
    db.create_table("own-log")
    with pytest.raises(firn.TableNotFoundError, match='journal="writer"'), db.writer_transaction() as tx:
        tx.append("own-log", [{"id": 1}])
    assert connect().table("own-log").scan().count() == 0


def test_a_batch_happens_once_over_transactions(connect: Connect) -> None:
    db = connect("a")
    db.create_table("t", journal="writer", schema={"id": "BIGINT"})
    with db.writer_transaction() as tx:
        assert not tx.table("t").append([{"id": 1}], batch_id="x").duplicate
        assert tx.table("t").append([{"id": 1}], batch_id="x").duplicate
    assert ids(connect().table("t")) == [1]
    with db.writer_transaction() as tx:
        tx.table("t").append([{"id": 2}], batch_id="y")
        tx.append("t", [{"id": 3}])
        connect("a").table("t").append([{"id": 2}], batch_id="y")
    assert ids(connect().table("t")) == [1, 2, 3]


# -- keys


def test_a_change_of_another_writers_row_wins_however_far_that_writer_is(connect: Connect) -> None:
    """Revisions of two writers say nothing of who was first; what was read and changed is newer all the same."""
    b = connect("b").create_table("t", journal="writer", key=["id"])
    for number in range(6):
        b.upsert([{"id": 1, "n": number}, {"id": 2, "n": number}, {"id": 3, "n": number}])
    a = connect("a").table("t")
    assert a.update("id = 1", {"n": "n + 100"}).rows_updated == 1
    assert a.delete("id = 2").rows_deleted == 1
    a.upsert([{"id": 3, "n": 33}])
    expected = [{"id": 1, "n": 105}, {"id": 3, "n": 33}]
    assert rows(connect().table("t")) == rows(a) == expected
    assert connect("a").table("t").update("id = 1", {"n": "n + 1"}).rows_updated == 1
    b.merge()
    assert rows(connect().table("t"))[0] == {"id": 1, "n": 106}
    b.upsert([{"id": 2, "n": 7}])
    assert rows(connect().table("t"))[1] == {"id": 2, "n": 7}


def test_clocks_above_their_revision_come_back_with_a_rebuilt_catalog(connect: Connect) -> None:
    b = connect("b").create_table("t", journal="writer", key=["id"])
    for number in range(6):
        b.upsert([{"id": 1, "n": number}])
    connect("a").table("t").update("id = 1", {"n": "n + 100"})
    before = connect().table("t").snapshot()
    bucket = connect().bucket
    bucket.delete_many(
        [i.key for i in bucket.list("a/prod/").objects if "/data/" not in i.key and "/markers/" not in i.key]
    )
    connect().rebuild(writer="a")
    found = connect().table("t")
    assert {f.path: f.clocks for f in found.snapshot().files} == {f.path: f.clocks for f in before.files}
    assert rows(found) == [{"id": 1, "n": 105}]
