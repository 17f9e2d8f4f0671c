"""Rows that stand in their append's log: read, changed and kept as those of files are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import firn
from firn.arrow.json_columns import from_json, has_json, to_json
from firn.arrow.types import arrow_type
from firn.inspect.dump.dump import dump_object
from firn.inspect.fsck.fsck import check
from firn.journal import inlined
from firn.journal.inlined import InlinedRows
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format import codec
from firn.journal.leaderless.format.layout import mark_of
from firn.journal.leaderless.maintain import sweep
from firn.journal.leaderless.replay import checkpoint
from firn.lake.table import LakeTable

VALUES: Mapping[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "TINYINT": [-128, 127, None],
    "UBIGINT": [2**64 - 1, 0, None],
    "HUGEINT": [Decimal(10**38 - 1), Decimal(-(10**38) + 1), None],
    "FLOAT": [1.1, -0.0, math.nan, math.inf, -math.inf, 3.4028234663852886e38, 1e-45, None],
    "DOUBLE": [0.1, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, None],
    "DECIMAL(38,10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), None],
    "VARCHAR": ["", "\x00\n", "Grüße, 雪 🧊", None],
    "ENUM('a', 'b')": ["a", None],
    "JSON": ['{"a": 1}', None],
    "UUID": ["00000000-0000-0000-0000-000000000001", None],
    "BLOB": [b"", b"\x00\xff", None],
    "DATE": [0, -(2**31), 2**31 - 1, None],
    "TIME": [0, 86_399_999_999, None],
    "TIME_NS": [1, None],
    "TIMESTAMP": [-(2**63) + 1, 2**63 - 1, None],
    "TIMESTAMP_S": [-1, None],
    "TIMESTAMP_MS": [1, None],
    "TIMESTAMP_NS": [2**63 - 1, None],
    "TIMESTAMP WITH TIME ZONE": [2**62, None],
    "TIMESTAMPTZ_NS": [1, None],
    "BIGINT[]": [[1, None], [], None],
    "INTEGER[2]": [[1, 2], [None, 3], None],
    "STRUCT(a BIGINT, t TIMESTAMP[])": [{"a": 1, "t": [5, None]}, {"a": None, "t": None}, None],
    "MAP(VARCHAR, DOUBLE)": [[("a", math.nan), ("b", None)], [], None],
    "STRUCT(m MAP(DATE, DECIMAL(5,2)), b BLOB)[]": [[{"m": [(3, Decimal("1.20"))], "b": b"x"}, None], None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_the_same_behind_json(kind: str) -> None:
    column = pa.array(VALUES[kind], arrow_type(kind))
    assert has_json(kind)
    whole = pa.chunked_array([column.slice(0, 1), column.slice(1)])
    found = from_json(orjson.loads(orjson.dumps(to_json(whole, kind))), kind)
    assert found.type == column.type and str(found) == str(column)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", "1"),
        ("TINYINT", 300),
        ("VARCHAR", 1),
        ("DOUBLE", "nan"),
        ("DECIMAL(5,2)", 1.5),
        ("DATE", 2**40),
        ("BLOB", "%"),
        ("MAP(VARCHAR, BIGINT)", [["a"]]),
        ("STRUCT(a BIGINT)", [1, 2]),
    ],
)
def test_a_value_of_another_type_is_damage_that_names_log_and_column(
    kind: str, value: Any, table: LakeTable
) -> None:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    key = journal.layout.log_key(f"{table.append([{'a': 1}]).version}.jsonl")
    log = codec.decode(key.rpartition("/")[2], table.bucket.get(key).data, where=key)
    assert log.inlined is not None
    rows = InlinedRows.of({"a": kind}, [[value]], 1)
    table.bucket.put(key, codec.encode(_replaced(log, rows, kind)))
    with pytest.raises(firn.CorruptObjectError, match="the column 'a'") as error:
        _opened(table).scan().to_arrow()
    assert key in str(error.value)
    found = check(firn.connect(table.bucket.uri("").rstrip("/")))
    assert [key in str(problem) for problem in found.problems] == [True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"n":2,"v":[[1]]}', "the column 'a' of its rows hasn't 2 values"),
        (b'{"n":1,"v":[[1],[2]]}', "haven't the 1 columns"),
        (b'{"n":1,"v":[[1]],"x":2}', "aren't an object of `n` and `v`"),
        (b'{"n":1,"v":[["1"]]}', "the column 'a' .BIGINT. of its rows"),
        (b'{"n":1,"v":[[1]', "."),
    ],
)
def test_damage_among_many_logs_names_the_one_that_has_it(text: bytes, why: str, table: LakeTable) -> None:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    versions = [table.append([{"a": 1}]).version for _ in range(4)]
    key = journal.layout.log_key(f"{versions[2]}.jsonl")
    log = codec.decode(key.rpartition("/")[2], table.bucket.get(key).data, where=key)
    rows = InlinedRows(log.columns, b'{"firn":{"inline":%b}}' % text, 1)
    table.bucket.put(key, codec.encode(_replaced(log, rows, "BIGINT")))
    with pytest.raises(firn.CorruptObjectError, match=why) as error:
        _opened(table).scan().to_arrow()
    assert key in str(error.value)
    found = check(firn.connect(table.bucket.uri("").rstrip("/")))
    assert [key in str(problem) for problem in found.problems] == [True]


def test_a_schema_is_parsed_once_however_many_logs_have_it(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        table.append([{"a": n}])
    parsed: list[bytes] = []
    monkeypatch.setattr(codec, "orjson", _Parser(parsed))
    opened = _opened(table)
    assert opened.scan().count() == 20
    text = b"\n".join(parsed)
    assert text.count(b'{"a":"BIGINT"}') == 1
    assert text.count(b'"crc"') == 20 and b'"n":1' not in text, "rows are parsed when they are read"
    shared = {id(file.inlined.columns) for file in opened.snapshot().files}
    assert len(shared) == 1
    monkeypatch.undo()
    parsed.clear()
    monkeypatch.setattr(inlined, "orjson", _Parser(parsed))
    assert opened.scan(columns=["a"], where="a > 17").to_arrow()["a"].to_pylist() == [18, 19]
    assert len(parsed) == 1 and parsed[0].count(b'"n":1') == 20, "one parse of all logs' rows"


class _Parser:
    """orjson, which notes what it parses."""

    def __init__(self, parsed: list[bytes]) -> None:
        self._parsed = parsed
        self.JSONDecodeError, self.dumps = orjson.JSONDecodeError, orjson.dumps

    def loads(self, text: bytes) -> Any:
        self._parsed.append(text)
        return orjson.loads(text)


def test_rows_that_others_spell_otherwise_are_read(table: LakeTable) -> None:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    key = journal.layout.log_key(f"{table.append([{'a': 1}]).version}.jsonl")
    log = codec.decode(key.rpartition("/")[2], table.bucket.get(key).data, where=key)
    rows = InlinedRows(log.columns, b'{ "firn": {"inline": {"v": [[5, 6]], "n": 2}} }', 2)
    table.bucket.put(key, codec.encode(_replaced(log, rows, "BIGINT")))
    assert _opened(table).scan().count() == 2
    assert _opened(table).scan().to_arrow()["a"].to_pylist() == [5, 6]


def _replaced(log: codec.Log, rows: Any, kind: str) -> codec.Log:
    return codec.Log(
        log.name, log.t, {"a": kind}, notes=log.notes, nonce=log.nonce, need=log.need, inlined=rows
    )


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return firn.connect(tmp_path).create_table("t", properties={"inline": "64KB"})


def _opened(table: LakeTable) -> LakeTable:
    """As another process opens it."""
    return firn.connect(table.bucket.uri("").rstrip("/")).table(table.name)


def _requests(table: LakeTable, run: Any) -> dict[str, int]:
    before = table.bucket.counters.as_dict()
    run()
    after = table.bucket.counters.as_dict()
    verbs = ("get", "put", "list", "head", "delete")
    return {verb: after[verb] - before[verb] for verb in verbs if after[verb] != before[verb]}


def test_an_append_is_one_put_and_its_rows_cost_nothing_to_read() -> None:
    table = firn.connect("memory://").create_table(
        "t", partition_by=["k"], properties={"inline": "64KB", "schema_refresh": "1h"}
    )
    table.append([{"k": 0}])
    appended = [_requests(table, lambda: table.append([{"k": k} for k in range(5)])) for _ in range(3)]
    assert appended == [{"put": 1}] * 3
    table.snapshot()
    assert _requests(table, lambda: table.scan().to_arrow()) == {"list": 1}
    assert table.scan().count() == 16 and [p.rows for p in table.partitions()] == [4, 3, 3, 3, 3]
    told = table.history()[-1]
    assert (told.files_added, told.rows_added, told.inlined) == (0, 5, True) and told.bytes_added > 20
    folded = table.merge(only="inlined")
    assert (folded.op, folded.files_added, folded.files_removed, folded.rows_inserted) == ("fold", 5, 0, 0)
    assert table.merge(only="inlined").version is None
    log = _last_log(table)
    assert len(log.tombstones) == 4 and len(log.files) == 5 and not log.dead, "no marker of the rows"
    assert log.need == ()


def _last_log(table: LakeTable) -> codec.Log:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    return journal.loader.load().logs[-1]


def test_a_merge_of_one_partition_leaves_rows_of_others_in_their_logs(table: LakeTable) -> None:
    made = firn.connect("memory://").create_table("t", partition_by=["k"], properties={"inline": "64KB"})
    made.append([{"k": 1}, {"k": 2}])
    made.append([{"k": 3}])
    made.append([{"k": 2}, {"k": 4}])
    made.merge(partitions=[{"k": 1}])
    snapshot = made.snapshot()
    assert sorted(f.rows or 0 for f in snapshot.objects) == [1, 1, 2], (
        "all of the logs that share a partition"
    )
    assert [f.rows for f in snapshot.files if f.inlined is not None] == [1]
    assert sorted(made.scan().to_arrow()["k"].to_pylist()) == [1, 2, 2, 3, 4]
    assert made.sweep(older_than="0s").logs and made.scan().count() == 5


def test_a_change_writes_the_rows_of_all_logs_that_hang_together() -> None:
    """The log of rows that go has others of a partition; its other rows are in a second log, with rows of a third."""
    made = firn.connect("memory://").create_table("t", partition_by=["k"], properties={"inline": "64KB"})
    made.append([{"k": k, "n": 0} for k in (1, 2)])
    made.append([{"k": k, "n": 1} for k in (2, 3)])
    made.append([{"k": k, "n": 2} for k in (3, 4)])
    made.remove_partitions("k = 1")
    assert sorted(made.scan().to_arrow()["k"].to_pylist()) == [2, 2, 3, 3, 4]


def test_a_delete_takes_only_logs_with_a_row_that_goes(table: LakeTable) -> None:
    for n in range(4):
        table.append([{"n": n}, {"n": 10 + n}])
    done = table.delete("n = 2")
    assert (done.rows_deleted, done.files_added) == (1, 1)
    assert [f.rows for f in table.snapshot().files if f.inlined is not None] == [2, 2, 2]
    assert table.delete("n = 99").version is None
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [0, 1, 3, 10, 11, 12, 13]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (pa.table({"n": list(range(10_001))}), "too many rows"),
        (pa.table({"s": ["x" * 70_000]}), "too many bytes"),
        (pa.table({"s": pa.array([b"\xff"]).view(pa.string())}), "not UTF-8"),
    ],
)
def test_what_cant_stand_in_a_log_stands_in_a_file(rows: pa.Table, why: str, table: LakeTable) -> None:
    assert table.append(rows).files == 1, why
    assert table.scan().count() == rows.num_rows


def test_a_stream_of_batches_is_looked_at_as_far_as_needed(table: LakeTable) -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(6_000))})
    reader = pa.RecordBatchReader.from_batches(batch.schema, iter([batch, batch, batch]))
    assert table.append(reader).files == 1 and table.scan().count() == 18_000
    assert table.append(pa.RecordBatchReader.from_batches(batch.schema, iter([batch.slice(0, 3)]))).files == 0


def test_rows_that_no_fold_could_write_are_refused(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    keyed = db.create_table("k", key=["id"], properties={"inline": "64KB"})
    keyed.append([{"id": 1}])
    with pytest.raises(firn.InvalidInputError, match="null in"):
        keyed.append([{"id": None}])
    long = db.create_table("p", partition_by=["s"], properties={"inline": "64KB"})
    long.append([{"s": "x" * 300, "n": 1}, {"s": None, "n": 2}])
    long.merge()
    assert [p.values["s"] for p in long.partitions()] == [None, "x" * 300]


def test_versions_streams_and_batches_know_the_rows(table: LakeTable) -> None:
    first = table.append([{"n": 1}], batch_id="a")
    assert table.append([{"n": 1}], batch_id="a").duplicate
    second = table.append([{"n": 2}, {"n": 3}])
    table.merge()
    table.append([{"n": 4}])
    assert table.scan(at=first.version).to_arrow().to_pylist() == [{"n": 1}]
    stream = table.journal.stream()
    told = stream.poll(stream.since(0)).appends
    assert [sum(f.rows or 0 for f in files) for files in told] == [1, 2, 1], "folded ones, too"
    table.restore(second.version)
    assert table.scan().count() == 3 and all(f.inlined is None for f in table.snapshot().files)
    assert table.append([{"n": 1}], batch_id="a").version == first.version


def test_other_engines_are_told_to_wait(table: LakeTable) -> None:
    table.append([{"n": 1}, {"n": 2}])
    table.append([{"n": 3}])
    with pytest.raises(firn.UnsupportedError, match=r"3 rows of 2 commits are still in the log.*merge\(only"):
        table.scan().uris()
    assert "inlined    3 rows in 2 commits" in table.scan().explain()
    table.merge(only="inlined")
    assert len(table.scan().uris()) == 1


def test_a_sweep_leaves_no_deleted_row_in_the_checkpoint(table: LakeTable) -> None:
    for n in range(3):
        table.append([{"who": f"p-{n}"}])
    table.checkpoint()
    table.delete("who = 'p-1'")
    table.sweep(older_than="0s")
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    blob = table.bucket.get(journal.layout.checkpoint_key)
    assert not any(b"p-1" in body for body in checkpoint.decode(blob.data, where="").bodies.values())
    assert sorted(table.scan().to_arrow()["who"].to_pylist()) == ["p-0", "p-2"]
    for info in table.bucket.list("").objects:
        assert b"p-1" not in table.bucket.get(info.key).data, info.key


def kept_in_checkpoint(table: LakeTable, value: bytes) -> bool:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    return any(value in body for body in checkpoint.read(journal.log_bucket, journal.layout).bodies.values())


def test_the_next_sweep_rids_the_checkpoint_of_rows_that_a_killed_one_left(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        table.append([{"who": f"p-{n}"}])
    table.checkpoint()
    table.delete("who = 'p-1'")

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sweep, "_forget_bodies", killed)
        table.sweep(older_than="0s")
    assert kept_in_checkpoint(table, b"p-1")
    assert table.sweep(older_than="0s").logs == ()
    assert not kept_in_checkpoint(table, b"p-1") and kept_in_checkpoint(table, b'"past"')


def test_what_a_version_before_this_one_says(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append([{"n": 1}])
    monkeypatch.setattr(codec, "KNOWN_FEATURES", frozenset((codec.DEFINITION,)))
    with pytest.raises(firn.UnsupportedError, match="needs the feature 'inline'"):
        _opened(table).scan().to_arrow()


def test_appenders_read_only_logs_with_a_new_schema(tmp_path: Path) -> None:
    properties = {"inline": "64KB", "schema_refresh": "0s"}
    mine = firn.connect(tmp_path).create_table("t", properties=properties)
    other = firn.connect(tmp_path).table("t")
    for n in range(2):
        mine.append([{"n": n}])
    assert _requests(mine, lambda: mine.append([{"n": 2}])) == {"list": 1, "put": 1}
    for _ in range(3):
        other.append([{"n": 3}])
    assert _requests(mine, lambda: mine.append([{"n": 4}])) == {"list": 1, "put": 1}
    other.append([{"n": 5, "m": "x"}])
    other.append([{"n": 6, "m": "y"}])
    assert _requests(mine, lambda: mine.append([{"n": 7}])) == {"list": 1, "get": 2, "put": 1}
    assert list(mine.journal.known().columns) == ["n", "m"]
    marks = {mark_of(f"{c.version}.jsonl") for c in mine.history()}
    assert len(marks) == 2 and None not in marks


def test_properties_that_cant_be(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, writer="w")
    for properties, told in (
        ({"inline": "2MB"}, "1 MB at most"),
        ({"inline": "64KB", "shared": "icedb"}, "would lose them"),
        ({"inline": "soon"}, "soon"),
    ):
        with pytest.raises(firn.InvalidInputError, match=told):
            db.create_table("t", properties=properties)
    table = db.create_table("t")
    assert table.append([{"n": 1}]).files == 1
    table.alter(set_properties={"inline": "64KB"})
    assert table.append([{"n": 2}]).files == 0
    with pytest.raises(firn.InvalidInputError, match="it must be 'inlined' or None"):
        table.merge(only="files")  # type: ignore[arg-type]


def test_altered_columns_and_types_that_dont_fit(table: LakeTable) -> None:
    table.append([{"a": 1, "b": "x"}])
    table.append([{"a": 2}])
    late = _opened(table)
    late.journal.known()
    table.alter(rename={"a": "c"}, add={"d": ("BIGINT", 7)})
    late.append([{"a": 3}])
    table.append([{"c": 4, "d": None}])
    want = [(1, "x", 7), (2, None, 7), (3, None, 7), (4, None, None)]
    for _ in range(2):
        rows = _opened(table).scan().to_arrow().sort_by("c").to_pylist()
        assert [(row["c"], row["b"], row["d"]) for row in rows] == want
        table.merge()
    assert table.scan(where="d = 7").count() == 3


def test_the_rows_are_shown_in_dumps(table: LakeTable) -> None:
    version = table.append(
        [{"at": datetime(2020, 1, 1), "day": date(1970, 1, 2), "n": n} for n in (1, 2)]
    ).version
    shown = dump_object(table.bucket, f"t/_log/{version}.jsonl")
    assert not shown.problems
    assert shown.sections["rows"] == (
        '{"at":1577836800000000,"day":1,"n":1}',
        '{"at":1577836800000000,"day":1,"n":2}',
    )


def test_queries_in_process_read_rows_of_files_and_logs_together(table: LakeTable) -> None:
    db = firn.connect(table.bucket.uri("").rstrip("/"))
    day = datetime(2020, 1, 1, tzinfo=timezone.utc)
    table.append([{"n": n, "at": day + timedelta(n), "t": time(n)} for n in range(3)])
    table.merge()
    table.append([{"n": n, "at": day + timedelta(n), "t": time(n)} for n in range(3, 6)])
    told = db.sql('SELECT n, "at", t FROM t WHERE n BETWEEN 2 AND 4 ORDER BY n').to_arrow().to_pylist()
    assert told == table.scan(where="n BETWEEN 2 AND 4").to_arrow().sort_by("n").to_pylist()
    assert len(told) == 3
    done = db.sql("MERGE INTO t USING (VALUES (1), (5), (9)) AS s(n) ON t.n = s.n WHEN MATCHED THEN DELETE")
    assert done.outcome is not None and done.outcome.rows_deleted == 2
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [0, 2, 3, 4]
