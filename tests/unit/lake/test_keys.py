"""Tables with a key: what makes a version the newest, what may be left unread, and what is refused."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.bucket import open_bucket
from firn.journal.agreement import Rules
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit
from firn.lake.definition.definition import LakeDefinition, read_definition
from firn.lake.definition.keys import KeySpec, newest, parse_key
from firn.lake.read.scan import Scan
from firn.lake.table import LakeTable


@pytest.fixture
def stock(db: firn.Database) -> LakeTable:
    return db.create_table("stock", key=["id"])


def content(table: LakeTable, **scan: Any) -> list[tuple[Any, ...]]:
    return content_of(table.scan(**scan))


def content_of(scan: Scan) -> list[tuple[Any, ...]]:
    rows = scan.to_arrow().to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


class LateJournal(LeaderlessJournal):
    """Its appends were stamped at `stamp`, and land now."""

    stamp = 0

    def stamp_ms(self, commit: Commit) -> int:
        return self.stamp


def upsert_late(table: LakeTable, ms: int, rows: list[dict[str, object]]) -> None:
    journal = LateJournal(table.bucket, table.prefix, rules=Rules(table.context.definition.columns))
    journal.stamp = ms
    LakeTable(table.bucket, table.prefix, table.context.definition, journal).upsert(rows)


def spent(table: LakeTable, before: Mapping[str, int]) -> dict[str, int]:
    after = table.bucket.counters.as_dict()
    return {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "delete")}


# -- creating


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"key": "id"}, r"a list of texts"),
        ({"key": ["nothing"]}, r"'nothing', which isn't in the schema"),
        ({"key": ["id", "ID"]}, r"stands twice"),
        ({"key": ["id"], "version_by": "id"}, r"stands twice"),
        ({"key": ["x"]}, r"'x' \(DOUBLE\) can't be a key"),
        ({"key": ["tags"]}, r"'tags' \(VARCHAR\[\]\) can't be a key"),
        ({"key": ["id"], "version_by": "x"}, r"'x' \(DOUBLE\) can't be version_by"),
        ({"version_by": "id"}, r"needs a key"),
        ({"key": ["id"], "partition_by": ["place"]}, r"'place', which isn't part of its key"),
        ({"key": ["id"], "properties": {"shared": "icedb"}}, r"can't be shared"),
        ({"key": ["id"], "properties": {"delete_retention": "soon"}}, r"soon"),
    ],
)
def test_a_key_that_can_not_be_is_refused(db: firn.Database, arguments: dict[str, Any], reason: str) -> None:
    schema = {"id": "BIGINT", "place": "VARCHAR", "x": "DOUBLE", "tags": "VARCHAR[]"}
    with pytest.raises(firn.InvalidInputError, match=reason):
        db.create_table("t", schema=schema, **arguments)
    assert db.tables() == []


def test_a_table_of_the_references_can_not_have_a_key(db: firn.Database) -> None:
    LeaderlessJournal(db.bucket, "t").begin_append().commit(Commit("append", columns={"id": "BIGINT"}))
    with pytest.raises(firn.UnsupportedError, match="no clock"):
        db.create_table("t", key=["id"])


def test_names_of_hidden_columns_are_taken(db: firn.Database, stock: LakeTable) -> None:
    with pytest.raises(firn.InvalidInputError, match="_Firn_clock"):
        db.create_table("t", schema={"id": "BIGINT", "_Firn_clock": "VARCHAR"}, key=["id"])
    with pytest.raises(firn.InvalidInputError, match="_firn_deleted"):
        stock.upsert([{"id": 1, "_firn_deleted": 5}])
    assert stock.snapshot().files == ()


def test_the_key_is_in_the_definition_and_earlier_versions_refuse_it(db: firn.Database) -> None:
    db.create_table("t", schema={"Id": "BIGINT", "v": "DATE"}, key=["id"], version_by="V")
    assert db.table("t").keys == KeySpec(("Id",), "v")
    assert db.bucket.get("t/_firn/table.json").data.startswith(b'{\n  "firn": 2,')
    plain = LakeDefinition("plain").encode()
    assert plain.startswith(b'{\n  "firn": 1,') and b"key" not in plain
    assert read_definition(db.bucket, "t") == db.table("t").context.definition


def test_a_type_that_makes_no_key_is_refused_when_it_comes(stock: LakeTable) -> None:
    with pytest.raises(firn.InvalidInputError, match=r"'id' \(DOUBLE\) can't be a key"):
        stock.upsert([{"id": 1.5}])
    with pytest.raises(firn.InvalidInputError, match="which its key is made of"):
        stock.upsert([{"n": 1}])
    assert stock.snapshot().files == ()


# -- which version is the newest


def test_rows_of_one_append_count_by_position(stock: LakeTable) -> None:
    result = stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 1, "n": 3}])
    assert result.rows == 2
    assert content(stock) == [(1, 3), (2, 2)]


def test_a_null_in_the_key_is_refused(stock: LakeTable) -> None:
    with pytest.raises(firn.InvalidInputError, match=r"1 rows have null in 'id'"):
        stock.upsert([{"id": 1, "n": 1}, {"id": None, "n": 2}])
    assert stock.snapshot().files == ()


def test_version_by_decides_before_the_clock_and_null_is_least(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], version_by="n")
    table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 5}, {"id": 3, "n": None}])
    table.upsert([{"id": 1, "n": 4}, {"id": 2, "n": 6}, {"id": 3, "n": -1}, {"id": 4, "n": 9}])
    assert content(table) == [(1, 5), (2, 6), (3, -1), (4, 9)]
    table.merge()
    assert content(table) == [(1, 5), (2, 6), (3, -1), (4, 9)]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["b", "a", "b"]),
        pa.array([b"b", b"", b"b"]),
        pa.array([True, False, True]),
        pa.array([dt.date(2024, 1, 1), dt.date(1, 1, 1), dt.date(2024, 1, 1)]),
        pa.array([7, None, 7], pa.decimal128(38, 0)),
        pa.array([dt.time(1), None, dt.time(1)]),
        pa.array([dt.datetime(2024, 1, 1), None, dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
    ],
)
def test_keys_of_any_type(keys: pa.Array) -> None:
    rows = pa.table({"k": keys})
    assert newest(rows, KeySpec(("k",))).tolist() == [False, True, True]


def test_a_process_wins_over_what_it_has_seen_whatever_its_clock(stock: LakeTable) -> None:
    upsert_late(stock, stock.journal.now_ms() + 60_000, [{"id": 1, "n": 1}])
    assert content(stock) == [(1, 1)]
    for n in range(5):
        stock.upsert([{"id": 1, "n": n}])
        assert content(stock) == [(1, n)]


def test_files_of_one_commit_are_in_order(db: firn.Database) -> None:
    """A gather makes a file of its own, and a key may be in several: the last one counts."""
    table = db.create_table("t", key=["id"], properties={"memory_budget": 1})
    batches = [pa.record_batch({"id": [1, n + 2], "n": [n, n]}) for n in range(4)]
    result = table.upsert(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert result.files == 4
    assert content(table) == [(1, 3), (2, 0), (3, 1), (4, 2), (5, 3)]
    table.merge()
    assert content(table) == [(1, 3), (2, 0), (3, 1), (4, 2), (5, 3)]


def test_an_append_that_lands_between_merged_ones_is_judged_row_by_row(stock: LakeTable) -> None:
    early = stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}]).version
    between = int(early[:13]) + 1
    upsert_late(stock, between + 1, [{"id": 2, "n": 3}])
    stock.merge()
    assert content(stock) == [(1, 1), (2, 3)]
    upsert_late(stock, between, [{"id": 1, "n": 2}, {"id": 2, "n": 2}])
    assert content(stock) == [(1, 2), (2, 3)]
    stock.merge()
    assert content(stock) == [(1, 2), (2, 3)]


def test_a_foreign_reader_sees_each_key_once_after_a_merge(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    stock.upsert([{"id": 1, "n": 3}])
    stock.merge()
    (file,) = stock.snapshot().files
    rows = pq.read_table(io.BytesIO(stock.bucket.get(file.path).data)).to_pylist()
    assert [(row["id"], row["n"]) for row in rows] == [(1, 3), (2, 2)]
    assert rows[0].keys() == {"id", "n", "_firn_clock"}
    assert rows[0]["_firn_clock"] > rows[1]["_firn_clock"]
    assert stock.schema().names == ["id", "n"]


# -- what may be left unread


def test_pruning_never_hides_a_newer_version(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    stock.upsert([{"id": 1, "n": 5}])
    assert content(stock, where="n = 1") == [(2, 1)]
    assert stock.scan(where="n = 1").count() == 1
    assert content(stock, where="id = 1 AND n = 1") == []
    assert content(stock, where="n < 3 AND id < 9") == [(2, 1)]
    assert stock.scan(where="n = 1 OR id = 1").count() == 2


def test_a_deletion_is_never_pruned(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    stock.delete("id = 1")
    assert content(stock, where="n = 1") == [(2, 1)]
    assert content(stock, where="n IS NULL") == []
    assert stock.scan(where="n IS NULL").count() == 0


def test_predicates_on_the_key_leave_out_files(stock: LakeTable) -> None:
    for n in range(10):
        stock.upsert([{"id": n, "n": n}])
    scan = stock.scan(where="id = 3 AND n > 0")
    assert len(scan.files()) == 1
    before = stock.bucket.counters.as_dict()
    assert scan.to_arrow().num_rows == 1
    assert spent(stock, before)["get"] == 1


def test_older_files_than_those_shown_are_left_out_where_the_clock_decides(db: firn.Database) -> None:
    for by, files in ((None, 1), ("v", 2)):
        table = db.create_table(f"t{files}", key=["id"], version_by=by)
        table.upsert([{"id": 1, "n": 1, "v": 9}])
        table.upsert([{"id": 1, "n": 5, "v": 1}])
        assert len(table.scan(where="n = 5").files()) == files
        assert len(table.scan(where="n = 1").files()) == 2
    assert content(db.table("t1"), where="n = 5") == [(1, 5)]
    assert content(db.table("t2"), where="n = 5") == []


def test_partitions_are_read_on_their_own(db: firn.Database) -> None:
    table = db.create_table("t", key=["place", "id"], partition_by=["place"])
    for n in range(3):
        table.upsert([{"place": p, "id": 1, "n": n} for p in ("a", "b")])
    assert len(table.scan(where="place = 'a'").files()) == 3
    assert content(table) == [(1, 2), (1, 2)]


def test_what_is_merged_is_read_like_any_table(stock: LakeTable) -> None:
    for n in range(4):
        stock.upsert([{"id": id, "n": n} for id in range(100)])
    stock.merge()
    stock.snapshot()
    before = stock.bucket.counters.as_dict()
    assert stock.scan(where="n = 99").files() == []
    assert stock.scan().count() == 100 and stock.scan(where="n = 3").count() == 100
    assert spent(stock, before)["get"] == 0, "counted by metadata"
    assert stock.scan(where="id < 5").count() == 5


def test_merged_files_of_the_target_size_share_no_key(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"])
    for n in range(2):
        table.upsert([{"id": id, "n": n} for id in range(500)])
    created = replace(table.context.created, properties={"row_group_rows": 5})
    table.context = replace(table.context, created=created)
    table.merge(target_size="16KB")
    assert len(table.snapshot().files) > 1
    (group,) = table.scan().groups()
    assert group.plain and table.scan().count() == 500
    assert {n for _, n in content(table)} == {1}
    table.upsert([{"id": 7, "n": 7}])
    assert content(table, where="n > 1") == [(7, 7)] and table.scan().count() == 500


def test_what_one_merge_made_is_merged_as_a_whole(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], properties={"row_group_rows": 5})
    for n in range(3):
        table.upsert([{"id": id, "n": n} for id in range(500)])
        table.merge(target_size="16KB")
        files = table.snapshot().files
        assert len({(f.extra or {}).get("fold") for f in files}) == 1
    assert len(files) > 1
    table.upsert([{"id": 1, "n": 9}])
    assert table.merge(target_size="16KB").version is None, "too little to write it all anew"
    assert table.scan().count() == 500


def test_small_files_cost_one_get_each(stock: LakeTable) -> None:
    for n in range(5):
        stock.upsert([{"id": 1, "n": n}, {"id": n, "n": n}])
    scan = stock.scan()
    assert len(scan.files()) == 5
    before = stock.bucket.counters.as_dict()
    assert scan.to_arrow().num_rows == 5
    assert spent(stock, before) == {"get": 5, "put": 0, "list": 0, "delete": 0}


def test_small_files_that_find_no_room_are_fetched_twice(
    stock: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        stock.upsert([{"id": 1, "n": n}, {"id": n, "n": n}])
    first, *_ = stock.snapshot().files
    monkeypatch.setattr("firn.lake.read.latest.KEPT_BYTES", first.size)
    scan = stock.scan(where="n < 4")
    assert len(scan.files()) == 5
    before = stock.bucket.counters.as_dict()
    assert content_of(scan) == [(0, 0), (2, 2), (3, 3)]
    assert spent(stock, before)["get"] == 5 + 2, (
        "of the four shown, the first is kept, and the second lost its rows"
    )


def test_a_log_that_lost_its_clocks_is_said_to_be_corrupt(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}])
    snapshot = stock.snapshot()
    bare = [file._replace(extra={"rows": 1}) for file in snapshot.files]
    scan = Scan(stock.context, snapshot=replace(snapshot, files=tuple(bare)))
    with pytest.raises(firn.CorruptObjectError, match="has no clock"):
        scan.count()


# -- update and delete


def test_update_computes_from_the_row_as_it_was(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1, "s": "x"}, {"id": 2, "n": 2, "s": "it's"}])
    result = stock.update("n >= 1", {"N": "n * 10", "s": "s || n"})
    assert (result.op, result.rows_updated, result.rows_deleted, result.files_removed) == ("update", 2, 0, 0)
    assert stock.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "n": 10, "s": "x1"},
        {"id": 2, "n": 20, "s": "it's2"},
    ]
    assert stock.update("n = 1", {"n": "0"}).version is None, "no row has that any more"
    last = stock.history()[-1]
    assert last.op == "update" and last.summary["columns"] == ["n", "s"]


@pytest.mark.parametrize(
    ("where", "set_", "reason"),
    [
        ("true", {}, "says nothing to set"),
        ("true", {"x": "1"}, "no column 'x'"),
        ("true", {"id": "2"}, "part of the key"),
        ("true", {"n": "1", "N": "2"}, "set twice"),
        ("true", {"n": 5}, "a dict of texts"),
        ("true", {"n": "random()"}, "random"),
        ("true", {"n": "nothing + 1"}, "'nothing' isn't a column"),
        ("true", {"n": "'much'"}, "much|VARCHAR"),
        ("true", {"n": "1) AS n, (2"}, "expression"),
        ("nothing = 1", {"n": "1"}, "'nothing' isn't a column"),
    ],
)
def test_an_update_that_can_not_be_changes_nothing(
    stock: LakeTable, where: str, set_: dict[str, Any], reason: str
) -> None:
    version = stock.upsert([{"id": 1, "n": 1}]).version
    with pytest.raises(firn.InvalidInputError, match=reason):
        stock.update(where, set_)
    assert stock.snapshot().version == version and content(stock) == [(1, 1)]


def test_a_deleted_key_stays_deleted_when_an_older_version_lands(stock: LakeTable) -> None:
    early = stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}]).version
    assert stock.delete("n = 1").rows_deleted == 1
    upsert_late(stock, int(early[:13]) - 5, [{"id": 1, "n": 0}])
    assert content(stock) == [(2, 2)]
    stock.merge()
    upsert_late(stock, int(early[:13]) - 4, [{"id": 1, "n": 0}])
    assert content(stock) == [(2, 2)]
    stock.upsert([{"id": 1, "n": 3}])
    assert content(stock) == [(1, 3), (2, 2)]


def test_a_merge_of_everything_forgets_old_deletions(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], properties={"delete_retention": "0s"})
    table.upsert([{"id": id, "n": 1} for id in range(100)])
    table.delete("id < 50")
    table.merge()
    (file,) = table.snapshot().files
    assert file.rows == 50 and "deletes" not in (file.extra or {})
    table.delete("true")
    table.merge()
    assert table.snapshot().files == () and content(table) == []


def test_a_merge_of_some_files_keeps_deletions(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], properties={"delete_retention": "0s"})
    table.upsert([{"id": id, "n": id} for id in range(20_000)])
    table.delete("id = 1")
    table.upsert([{"id": 2, "n": 0}])
    table.merge()
    assert len(table.snapshot().files) == 2, "the large file isn't worth merging"
    assert content(table, where="id < 3") == [(0, 0), (2, 0)]


def test_delete_keys_needs_no_look(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    result = stock.delete_keys([{"ID": 1}, {"ID": 7}, {"ID": 1}])
    assert result.rows_deleted is None
    assert content(stock) == [(2, 2)]
    for rows in ([{"id": 1, "n": 1}], [{"n": 1}]):
        with pytest.raises(firn.InvalidInputError, match="takes rows with the columns id"):
            stock.delete_keys(rows)


def test_deletes_compare_by_version_too(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], version_by="n")
    table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 5}])
    table.delete_keys([{"id": 1, "n": 4}, {"id": 2, "n": 5}])
    assert content(table) == [(1, 5)]
    table.delete("n = 5")
    table.upsert([{"id": 1, "n": 4}])
    assert content(table) == []
    table.upsert([{"id": 1, "n": 6}])
    assert content(table) == [(1, 6)]


# -- other verbs


def test_a_delete_of_a_version_counts_before_there_are_any_rows(db: firn.Database) -> None:
    schema = {"id": "BIGINT", "n": "BIGINT"}
    table = db.create_table("t", schema=schema, key=["id"], version_by="n")
    table.delete_keys([{"id": 1, "n": 5}])
    table.upsert([{"id": 1, "n": 4}])
    assert content(table) == []
    table.upsert([{"id": 1, "n": 6}])
    assert content(table) == [(1, 6)]
    undeclared = db.create_table("u", key=["id"], version_by="n")
    assert undeclared.delete_keys([{"id": 1, "n": 5}]).version is None


def test_time_travel_and_restore(stock: LakeTable) -> None:
    first = stock.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}]).version
    second = stock.delete("id = 2").version
    stock.upsert([{"id": 1, "n": 3}])
    stock.merge()
    assert content(stock, at=first) == [(1, 1), (2, 2)]
    assert content(stock, at=second) == [(1, 1)]
    stock.restore(first)
    assert content(stock) == [(1, 1), (2, 2)]
    stock.upsert([{"id": 2, "n": 9}])
    assert content(stock) == [(1, 1), (2, 9)]


def test_a_batch_counts_once(stock: LakeTable) -> None:
    stock.upsert([{"id": 1, "n": 1}], batch_id="b")
    stock.upsert([{"id": 1, "n": 2}])
    assert stock.upsert([{"id": 1, "n": 1}], batch_id="b").duplicate
    assert content(stock) == [(1, 2)]


def test_what_changes_versions_one_file_at_a_time_is_refused(stock: LakeTable) -> None:
    version = stock.upsert([{"id": 1, "n": 1}]).version
    for refused in (
        lambda: stock.register("somewhere/"),
        lambda: stock.rewrite("id = 1"),
        lambda: stock.overwrite([{"id": 1, "n": 1}], where="id = 1"),
        lambda: stock.merge(query="SELECT * FROM source_files"),
    ):
        with pytest.raises(firn.UnsupportedError, match="stock has a key"):
            refused()
    assert stock.snapshot().version == version


def test_tables_without_a_key_know_none_of_it(db: firn.Database) -> None:
    table = db.create_table("t")
    table.append([{"id": 1, "n": 1}])
    for verb in (
        lambda: table.upsert([{"id": 1}]),
        lambda: table.delete_keys([{"id": 1}]),
    ):
        with pytest.raises(firn.InvalidInputError, match="t has no key"):
            verb()
    (file,) = table.snapshot().files
    assert file.clocks is None


def test_keys_widen_with_their_column(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"])
    table.upsert(pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([1, 1], pa.int64())}))
    table.upsert(pa.table({"id": pa.array([2, 2**40], pa.int64()), "n": pa.array([2, 2], pa.int64())}))
    assert content(table) == [(1, 1), (2, 2), (2**40, 2)]
    table.merge()
    assert content(table) == [(1, 1), (2, 2), (2**40, 2)]


def test_parse_key_without_a_schema_keeps_the_names() -> None:
    assert parse_key(["a", "b"], "c", {}, ["A"]) == KeySpec(("a", "b"), "c")


def test_a_directory_is_read_in_place(tmp_path: Any) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", key=["id"], partition_by=["bucket(4, id)"])
    for n in range(3):
        table.upsert([{"id": id, "n": n} for id in range(n, 40)])
    table.delete("id % 10 = 9")
    assert open_bucket(str(tmp_path)).capabilities.shareable
    expected = [(id, min(id, 2)) for id in range(40) if id % 10 != 9]
    assert content(table) == expected
    table.merge()
    assert content(table) == expected and table.scan().count() == 36
