"""A data file that is lost or damaged made all reads and merges fail, and no verb let it go."""

from __future__ import annotations

from datetime import date

import pytest

import firn
from advice import advises
from lake_journals import EVERY_LAKE

ROWS = [
    [{"d": date(2001, 1, 1), "n": 1}, {"d": date(2001, 1, 2), "n": 2}],
    [{"d": date(2001, 1, 3), "n": 3}],
    [{"d": date(2001, 2, 4), "n": 4}],
]


@pytest.fixture(params=sorted(EVERY_LAKE))
def lake(request):
    return EVERY_LAKE[request.param]()


def three_files(lake, **definition):
    table = lake.create("t", partition_by=["month(d)"], **definition)
    for rows in ROWS:
        table.append(rows)
    return table


def path_of(table, n):
    (path,) = [f.path for f in table.scan(where=f"n = {n}").files()]
    return path


def lose(table, path):
    table.bucket.delete(path)


def damage(table, path):
    """A bit of each byte of the pages; the footer stays."""
    body = table.bucket.get(path).data
    end = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    table.bucket.put(path, body[:4] + bytes(byte ^ 1 for byte in body[4:end]) + body[end:])


def cut(table, path):
    table.bucket.put(path, table.bucket.get(path).data[:-20])


HARMS = [lose, damage, cut]


def numbers(table):
    return sorted(row["n"] for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("harm", HARMS)
def test_each_verb_names_the_file_and_the_way_out(lake, harm):
    table = three_files(lake)
    path = path_of(table, 1)
    harm(table, path)
    verbs = [
        lambda: table.scan().to_arrow(),
        lambda: list(table.scan().to_batches()),
        lambda: table.scan(where="n = 1").count(),
        lambda: table.merge(),
        lambda: table.delete("n = 1", soft=False),
        lambda: table.rewrite("n <> 1"),
    ]
    for verb in verbs:
        with advises(
            "by forget_files([", names=path, kind=(firn.ObjectNotFoundError, firn.CorruptObjectError)
        ):
            verb()


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_file_goes_and_the_others_are_read(lake, harm):
    table = three_files(lake)
    path = path_of(table, 1)
    table.delete("n = 2", soft=table.journal.soft_deletes)
    path = path_of(table, 1)
    before = table.snapshot()
    harm(table, path)
    planned = table.forget_files(path, dry_run=True)
    assert planned.dry_run and planned.version is None and table.snapshot() == before
    result = table.forget_files([table.bucket.uri(path)])
    (lost,) = result.files
    assert lost.path == path and path in lost.why
    assert lost.partition == {"d_month": "2001-01"}
    assert lost.bounds["d"][0] == date(2001, 1, 1)
    assert lost.bounds["n"][0] == 1
    assert lost.rows == result.rows == (2 if lost.soft_deletes else 1)
    assert bool(lost.soft_deletes) == table.journal.soft_deletes
    assert result.version == table.snapshot().version
    assert not result.uncovers
    assert numbers(table) == numbers(lake.connect().table("t")) == [3, 4]
    assert table.history()[-1].op == "forget"
    assert table.history()[-1].summary["rows_removed"] == result.rows
    table.merge()
    table.append(ROWS[0])
    assert numbers(table) == [1, 2, 3, 4]
    report = lake.forget(table)
    # A writer's sweep leaves what has no footer alone, and says so.
    assert path not in {i.key for i in table.bucket.list("").objects} or path in report.kept_foreign
    assert numbers(table) == [1, 2, 3, 4]


def test_files_that_can_be_read_stay(lake):
    table = three_files(lake)
    lost, whole = path_of(table, 1), path_of(table, 3)
    lose(table, lost)
    with pytest.raises(firn.InvalidInputError, match="can be read"):
        table.forget_files([lost, whole])
    with pytest.raises(firn.InvalidInputError, match=r"has no file .*Did you mean"):
        table.forget_files([f"{lost}x"])
    with pytest.raises(firn.InvalidInputError, match="at least one path"):
        table.forget_files([])
    assert len(table.snapshot().files) == 3


def test_a_store_that_fails_loses_nothing(lake, monkeypatch):
    table = three_files(lake)
    path = path_of(table, 1)

    def fail(key):
        raise firn.StoreUnavailableError(f"{key}: the network is down")

    monkeypatch.setattr(table.bucket, "get", fail)
    with pytest.raises(firn.StoreUnavailableError):
        table.forget_files(path, dry_run=True)


def test_a_table_with_a_key_says_that_older_rows_may_come_back(lake):
    table = lake.create("t", key=["n"])
    table.upsert([{"n": 1, "v": "old"}])
    table.upsert([{"n": 1, "v": "new"}])
    lost = table.snapshot().files[-1].path
    lose(table, lost)
    with advises("by forget_files([", names=lost):
        table.scan().to_arrow()
    assert table.forget_files(lost).uncovers
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "v": "old"}]


def test_another_writers_file_is_theirs_to_forget():
    lake = EVERY_LAKE["writer"]()
    table = three_files(lake)
    other = lake.connect("v").table("t")
    other.append([{"d": date(2001, 1, 5), "n": 5}])
    path = path_of(table, 5)
    lose(table, path)
    with advises("Connect as that writer", names=path):
        table.forget_files(path)
    other.forget_files(path)
    assert numbers(table) == [1, 2, 3, 4]


def test_a_rebuilt_catalog_doesnt_miss_what_was_forgotten():
    lake = EVERY_LAKE["writer"]()
    table = three_files(lake)
    path = path_of(table, 1)
    damage(table, path)
    table.forget_files(path)
    for info in lake.db.bucket.list(f"{lake.db.prefix}/w/db/transactions/").objects:
        lake.db.bucket.delete(info.key)
    db = lake.connect()
    db.rebuild(writer="w")
    assert numbers(lake.connect().table("t")) == [3, 4]


def test_what_sweep_took_is_no_loss(lake):
    table = three_files(lake)
    old = table.snapshot()
    table.merge()
    lake.forget(table)
    with pytest.raises(firn.SnapshotTooOldError):
        firn.Scan(table.context, snapshot=old).to_arrow()
