"""Small things: reports that were wrong, dry runs that were missing, typing errors that passed."""

from __future__ import annotations

import io
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.errors import InvalidInputError
from lake_journals import EVERY_LAKE


def test_a_row_of_nothing_but_nulls_is_a_row(db):
    table = db.create_table("t", schema={"x": "BIGINT", "s": "VARCHAR"})
    assert table.append([{"x": None, "s": None}]).rows == 1
    assert table.scan().to_arrow().to_pylist() == [{"x": None, "s": None}]
    with pytest.raises(InvalidInputError, match="no value in any column"):
        db.create_table("u").append([{"x": None}])


def test_a_null_key_is_called_so_on_a_new_table(db):
    table = db.create_table("t", key=["id"])
    with pytest.raises(InvalidInputError, match="null in 'id'"):
        table.upsert([{"id": None, "v": 1}])


def test_a_file_that_is_named_twice_is_registered_once(db):
    body = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2]}), body)
    db.bucket.put("ext/a.parquet", body.getvalue())
    result = db.create_table("t").register(["ext/a.parquet", "ext/", "memory://ext/a.parquet"])
    assert (result.files, result.rows) == (1, 2)


@pytest.mark.parametrize("sort_by", [["a", "A"], ["a", "a desc"]])
def test_a_column_stands_once_in_a_sort_order(db, sort_by):
    with pytest.raises(InvalidInputError, match="twice"):
        db.create_table("t", sort_by=sort_by)
    assert db.tables() == []


def test_a_typing_error_in_a_sort_order_is_told_by_the_first_rows(db):
    with pytest.raises(InvalidInputError, match="names 'delya desc', which isn't in the schema"):
        db.create_table("t", sort_by=["delya desc"], schema={"delay": "BIGINT"})
    table = db.create_table("t", sort_by=["Delay desc", "delya"])
    for first in (table.append, table.overwrite):
        with pytest.raises(InvalidInputError, match=r"t: sort_by names 'delya'.*they have: delay"):
            first([{"delay": 5}])
    assert table.snapshot().files == ()
    table.append([{"delay": 5, "delya": None}])
    table.append([{"delay": 7}])
    assert table.scan().count() == 2


def test_a_column_whose_name_ends_in_a_direction_is_a_column(db):
    table = db.create_table("t", sort_by=["Room desc"], schema={"room desc": "VARCHAR"})
    table.append([{"room desc": "b"}, {"room desc": "a"}])
    assert table.scan().to_arrow().to_pylist() == [{"room desc": "a"}, {"room desc": "b"}]


def test_no_target_size_of_nothing(db):
    with pytest.raises(InvalidInputError, match="positive"):
        db.create_table("t").merge(target_size=0)


def test_delete_says_how_many_rows_it_deleted(db):
    table = db.create_table("t", partition_by=["p"])
    table.append([{"p": p, "n": n} for p in "ab" for n in range(50)])
    assert table.delete("n < 10").rows_deleted == 20
    assert table.delete("n < 10").rows_deleted == 0
    assert table.remove_partitions("p = 'a'").rows_deleted == 40
    assert table.merge().rows_deleted == 0


def test_delete_keys_claims_nothing_that_nobody_looked_at(db):
    table = db.create_table("t", key=["id"], version_by="v")
    table.upsert([{"id": 1, "v": 10}, {"id": 2, "v": 1}, {"id": 3, "v": None}])
    doomed = [{"id": id, "v": 5} for id in (1, 2, 3, 4)]
    planned = table.delete_keys(doomed, dry_run=True)
    assert planned.dry_run and planned.rows_deleted == 2
    assert table.scan().count() == 3
    result = table.delete_keys(doomed)
    assert result.rows_deleted is None
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [1]


@pytest.mark.parametrize("value", ["~sha256-", "~sha256-" + "0" * 32, "x" * 300])
def test_a_value_that_looks_like_a_hash_is_removed_by_a_predicate(db, value):
    table = db.create_table("t", schema={"s": "VARCHAR"}, partition_by=["s"])
    table.append([{"s": value}, {"s": "other"}])
    assert table.remove_partitions(f"s = '{value}'").rows_deleted == 1
    assert table.scan().to_arrow().to_pylist() == [{"s": "other"}]


@pytest.fixture(params=sorted(EVERY_LAKE))
def lake(request):
    return EVERY_LAKE[request.param]()


def dry_and_real(table, verb):
    before, objects = table.snapshot(), table.bucket.list("").objects
    planned = verb(dry_run=True)
    assert planned.dry_run and planned.version is None
    assert table.snapshot() == before
    assert {i.key for i in table.bucket.list("").objects} == {i.key for i in objects}
    done = verb(dry_run=False)
    assert not done.dry_run
    return planned, done


def test_a_dry_restore_says_what_goes_and_comes_back(lake):
    table = lake.create("t")
    table.append([{"n": 1}, {"n": 2}])
    version = table.snapshot().version
    table.overwrite([{"n": 3}])
    planned, done = dry_and_real(table, lambda dry_run: table.restore(version, dry_run=dry_run))
    assert (planned.files_removed, planned.files_added, planned.rows_inserted) == (1, 1, 2)
    assert (done.files_removed, done.files_added, done.rows_inserted) == (1, 1, 2)
    assert planned.files == done.files


def test_a_dry_overwrite_says_which_files_go(lake):
    table = lake.create("t", partition_by=["month(d)"])
    for month in (1, 2, 3):
        table.append([{"d": datetime(2001, month, 1), "n": month}])
    rows = [{"d": datetime(2001, 2, 5), "n": 7}]
    planned, done = dry_and_real(
        table, lambda dry_run: table.overwrite(rows, partitions="touched", dry_run=dry_run)
    )
    assert planned.files == done.files and planned.files_removed == 1
    planned, done = dry_and_real(table, lambda dry_run: table.overwrite(rows, where="n = 7", dry_run=dry_run))
    assert planned.files == done.files
    planned, done = dry_and_real(table, lambda dry_run: table.overwrite(rows, dry_run=dry_run))
    assert planned.files == done.files and planned.files_removed == 3


def test_a_dry_update_counts_rows(lake):
    table = lake.create("t", key=["id"])
    table.upsert([{"id": n, "v": n} for n in range(5)])
    planned, done = dry_and_real(table, lambda dry_run: table.update("id < 2", {"v": "9"}, dry_run=dry_run))
    assert planned.rows_updated == done.rows_updated == 2
    with pytest.raises(InvalidInputError, match="no column"):
        table.update("true", {"w": "1"}, dry_run=True)
