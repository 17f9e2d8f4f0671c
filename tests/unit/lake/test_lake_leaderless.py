"""Lake tables over the leaderless log: what is this journal's alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.clock import SystemClock
from firn.journal.model import KnownColumns
from firn.lake.table import LakeTable


def rows(*months: int) -> list[dict[str, object]]:
    return [
        {"date": dt.datetime(2001, m, d, 12), "origin": "DTW", "delay": m * 100 + d}
        for m in months
        for d in range(1, 11)
    ]


@pytest.fixture
def flights(db: firn.Database) -> LakeTable:
    return db.create_table("flights", partition_by=["month(date)"], sort_by=["delay"])


def values(table: LakeTable, column: str = "delay") -> list[object]:
    return sorted(table.scan().to_arrow()[column].to_pylist())


def test_append_is_one_put_a_file_and_one_for_the_log(flights: LakeTable) -> None:
    flights.append(rows(1))
    before = flights.bucket.counters.as_dict()
    result = flights.append(rows(1, 2, 3))
    after = flights.bucket.counters.as_dict()
    assert result.files == 3 and result.rows == 30 and not result.duplicate
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "head", "delete")}
    assert spent == {"get": 0, "put": 4, "list": 0, "head": 0, "delete": 0}


def test_a_table_shared_with_the_reference_refuses_to_widen(db: firn.Database) -> None:
    table = db.create_table("t", properties={"shared": "icedb"})
    table.append(pa.table({"x": pa.array([1], pa.int32())}))
    with pytest.raises(firn.SchemaConflictError):
        table.append(pa.table({"x": pa.array([2**40], pa.int64())}))


def test_count_reads_no_data(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    flights.snapshot()
    before = flights.bucket.counters.as_dict()
    assert flights.scan().count() == 30
    assert flights.scan(where="date >= '2001-02-01' AND date < '2001-03-01'").count() == 10
    after = flights.bucket.counters.as_dict()
    assert (
        after["get"] - before["get"] <= 1
    )  # the newest snapshot needs its LIST only, a predicate at most a file
    assert after["list"] - before["list"] == 2


def test_checkpoint_makes_opening_one_list_and_one_get(db: firn.Database, flights: LakeTable) -> None:
    for _ in range(30):
        flights.append(rows(1))
    assert flights.checkpoint() == 30
    flights.append(rows(2))
    fresh = db.table("flights")
    before = db.bucket.counters.as_dict()
    assert fresh.scan().count() == 310
    after = db.bucket.counters.as_dict()
    assert (after["list"] - before["list"], after["get"] - before["get"]) == (1, 2)
    db.bucket.put("flights/_firn/checkpoint.bin", b"damaged")
    assert db.table("flights").scan().count() == 310


def test_sweep_is_noted_and_folds_the_log(flights: LakeTable) -> None:
    for _ in range(3):
        flights.append(rows(1, 2))
    for name in ("part-a-orphan.parquet", "part-m-orphan.parquet"):
        flights.bucket.put(f"flights/_data/date_month=2001-01/{name}", b"x")
    flights.merge()
    plan = flights.sweep(older_than="0s", orphans="0s", dry_run=True)
    assert (len(plan.data_files), len(plan.orphans), len(plan.logs)) == (6, 2, 3)
    assert flights.sweep(older_than="0s", orphans="0s").logs == plan.logs
    assert len(flights.bucket.list("flights/_log/").objects) == 1
    history = flights.history()
    assert [line.op for line in history] == ["append", "append", "append", "merge", "sweep"]
    assert [line.rows_added for line in history[:4]] == [20, 20, 20, 60]


def test_what_is_registered_is_told_when_sweep_keeps_it(db: firn.Database) -> None:
    table = db.create_table("t")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1]}), sink)
    db.bucket.put("landing/one.parquet", sink.getvalue().to_pybytes())
    table.register("landing/")
    table.append([{"x": 2}])
    table.merge()
    assert table.sweep(older_than="0s", orphans="0s").kept_foreign == ("landing/one.parquet",)
    assert values(table, "x") == [1, 2]


def test_versions_are_no_numbers(flights: LakeTable) -> None:
    flights.append(rows(1))
    with pytest.raises(firn.InvalidInputError, match="revision"):
        flights.scan(at=3).count()


def test_a_grace_that_is_no_duration_is_refused(db: firn.Database) -> None:
    with pytest.raises(firn.InvalidInputError, match="soon"):
        db.create_table("t", properties={"tombstone_grace": "soon"})
    assert db.tables() == []


DEFINITION = "b/_firn/table.json"  # outlives the table: the next one of the name replaces it


def test_a_dropped_table_leaves_its_definition(db: firn.Database) -> None:
    db.create_table("b").append([{"x": 1}])
    report = db.drop_table("b")
    assert [info.key for info in db.bucket.list("").objects] == [DEFINITION]
    assert len(report.objects) == 2 and not report.dry_run


def test_a_dry_run_says_what_a_drop_would_delete(db: firn.Database) -> None:
    db.create_table("bc").append([{"x": 1}])
    db.create_table("b").append([{"x": 1}])
    there = db.bucket.list("b/").objects
    planned = db.drop_table("b", dry_run=True)
    assert planned == firn.DropReport(
        tuple(info.key for info in there if info.key != DEFINITION),
        sum(info.size for info in there if info.key != DEFINITION),
        dry_run=True,
    )
    assert values(db.table("b"), "x") == [1]
    assert db.bucket.list("b/").objects == there
    done = db.drop_table("b")
    assert done.objects == planned.objects and not done.dry_run
    assert db.tables() == ["bc"]
    with pytest.raises(firn.TableNotFoundError):
        db.drop_table("b", dry_run=True)


def test_a_drop_that_was_interrupted_can_be_run_again(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.create_table("b").append([{"x": 1}])
    with monkeypatch.context() as patch:
        patch.setattr(db.bucket, "delete_many", _unreachable)
        with pytest.raises(firn.StoreUnavailableError):
            db.drop_table("b")
    assert db.tables() == []
    with pytest.raises(firn.TableNotFoundError):
        db.table("b")
    left = db.drop_table("b", dry_run=True).objects
    assert {*left, DEFINITION} == {info.key for info in db.bucket.list("b/").objects}
    assert db.drop_table("b").objects == left
    assert [info.key for info in db.bucket.list("b/").objects] == [DEFINITION]


def _unreachable(keys: object) -> None:
    raise firn.StoreUnavailableError("the store is away")


# -- conflicts that concurrent appends landed all the same


class LaterClock(SystemClock):
    """So that of two quick commits it is sure which one is the later."""

    def now_ms(self) -> int:
        return super().now_ms() + 1000


@pytest.fixture
def torn(db: firn.Database) -> firn.Database:
    """Two writers that didn't know of each other: `x` is a number to one and text to the other."""
    a, b = db.create_table("t"), db.table("t")
    b.journal.clock = LaterClock()  # type: ignore[attr-defined]
    a.append([{"x": 1}])
    b.journal.known = lambda **_: KnownColumns({})  # type: ignore[method-assign]
    b.append([{"x": "one"}])
    return db


def with_property(db: firn.Database, **properties: str) -> LakeTable:
    key = "t/_firn/table.json"
    raw = orjson.loads(db.bucket.get(key).data)
    raw["properties"] = properties
    raw.pop("crc", None)
    db.bucket.put(key, orjson.dumps(raw))  # as version 0.1 wrote it
    return db.table("t")


def test_a_torn_schema_can_be_an_error_that_names_both_files(torn: firn.Database) -> None:
    table = with_property(torn, on_conflict="error")
    with pytest.raises(firn.SchemaConflictError, match=r"x.*BIGINT.*VARCHAR") as error:
        table.scan().to_arrow()
    assert str(error.value).count(".parquet") == 2
    assert table.merge().files_added == 1


def test_a_torn_schema_can_be_widened(torn: firn.Database) -> None:
    widened = with_property(torn, on_conflict="widen")
    assert sorted(widened.scan().to_arrow()["x"].to_pylist()) == ["1", "one"]


@pytest.mark.parametrize("old", [{}, {"on_conflict": "skip-file"}])
def test_a_torn_schema_is_read_side_by_side(torn: firn.Database, old: dict[str, str]) -> None:
    table = with_property(torn, **old)
    with pytest.warns(firn.DegradedReadWarning, match=r"resolve\('x', to='VARCHAR'\)"):
        rows = table.scan().to_arrow().to_pylist()
    assert rows == [{"x": 1, "x~varchar": None}, {"x": None, "x~varchar": "one"}]


def test_a_log_of_the_reference_opens_without_a_definition(db: firn.Database, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "format" / "icedb-logs"
    for log in source.iterdir():
        db.bucket.put(f"tenant/_log/{log.name}", log.read_bytes())
    table = db.table("tenant")
    assert table.context.definition.shared and db.tables() == ["tenant"]
    snapshot = table.snapshot()
    assert list(snapshot.columns) == ["ts", "event", "user_id", "properties"]
    assert [f.path.rpartition("/")[2] for f in snapshot.files] == [
        "a1c0d438-27b6-4f65-962d-0f61f1275ca1.parquet"
    ]
    assert table.partitions()[0].values == {"cust": "test", "d": "2023-06-07"}


def test_the_log_can_live_in_another_store(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "data")
    table = db.create_table("t", properties={"log_url": str(tmp_path / "logs")})
    table.append([{"x": 1}])
    table.append([{"x": 2}])
    table.merge()
    table.sweep(older_than="0s", orphans="0s")
    assert values(db.table("t"), "x") == [1, 2]
    assert not (tmp_path / "data" / "t" / "_log").exists()
    assert len(list((tmp_path / "logs" / "t" / "_log").iterdir())) == 1


def test_a_log_in_another_store_goes_with_its_table(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "data")
    logs = tmp_path / "logs"
    (logs / "t").mkdir(parents=True)
    (logs / "t" / "notes").write_text("not Firn's")
    table = db.create_table("t", properties={"log_url": str(logs)})
    table.append([{"x": 1}])
    (log,) = (logs / "t" / "_log").iterdir()
    planned = db.drop_table("t", dry_run=True)
    assert log.exists() and any(name.endswith(f"/t/_log/{log.name}") for name in planned.objects)
    assert db.drop_table("t").objects == planned.objects
    assert [info.key for info in firn.connect(logs).bucket.list("").objects] == ["t/notes"]
    again = db.create_table("t", properties={"log_url": str(logs)})
    assert again.snapshot().files == ()


def test_a_log_url_of_the_table_itself_is_no_other_store(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "data")
    db.create_table("t", properties={"log_url": str(tmp_path / "data")}).append([{"x": 1}])
    objects = db.drop_table("t").objects
    assert len(objects) == len(set(objects)) and all(key.startswith("t/") for key in objects)
    assert [info.key for info in db.bucket.list("").objects] == ["t/_firn/table.json"]


def test_maintenance_needs_a_lock_where_the_store_has_no_conditional_puts(tmp_path: Path) -> None:
    options = {"conditional_put": "disabled"}
    db = firn.connect("memory://nolock", options=options)
    table = db.create_table("t")
    table.append([{"x": 1}])
    table.append([{"x": 2}])
    with pytest.raises(firn.UnsupportedError, match="lock"):
        table.merge()
    locked = firn.connect("memory://nolock", options=options, lock=firn.FileLock(tmp_path)).table("t")
    assert locked.merge().files_removed == 2
    locked.sweep(older_than="0s", orphans="0s")
    assert values(locked, "x") == [1, 2]


def test_two_maintainers_exclude_each_other(db: firn.Database) -> None:
    table = db.create_table("t", properties={"lock_wait": "0s"})
    table.append([{"x": 1}])
    with table.journal.exclusive("merge"), pytest.raises(firn.LockHeldError, match="merge"):
        db.table("t").delete("x = 1")
    assert db.table("t").delete("x = 1").files_removed == 1


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_ctrl_c_at_any_request_leaves_the_lock_free(number: int, done: bool, tmp_path: Path) -> None:
    """Also where it meets the request that takes the lock, publishes, or gives the lock back."""
    url = f"memory://{tmp_path.name}"
    properties = {"lock_wait": "0s"}
    table = firn.connect(url).create_table("t", properties=properties)
    table.append([{"n": n} for n in range(10)])
    table.delete("n = 0")  # the lock's object is there
    bucket, left = table.bucket, [number]

    def interrupted(put: Callable[..., str]) -> Callable[..., str]:
        def call(*args: Any, **options: Any) -> str:
            left[0] -= 1
            if left[0] != -1:
                return put(*args, **options)
            if done:
                put(*args, **options)
            raise KeyboardInterrupt

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket, "put_if_match", interrupted(bucket.put_if_match))
        patch.setattr(bucket, "put_if_absent", interrupted(bucket.put_if_absent))
        with pytest.raises(KeyboardInterrupt):
            table.delete("n = 1")
    other = firn.connect(url).table("t")
    other.delete("n = 2")
    assert other.scan(where="n = 1").count() == (0 if (done and number == 3) or number == 4 else 1)
    assert other.scan().count() == 7 + other.scan(where="n = 1").count()
