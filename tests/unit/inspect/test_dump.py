"""Dump: any object as text, damaged ones too."""

from __future__ import annotations

import zlib
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from cli_runs import ROWS, done, flights, run
from firn.cli.terminal.output import encode
from firn.inspect.dump.dump import Dump, dump_object, dump_url
from firn.journal.leaderless.maintain.work_note import take


@pytest.fixture
def busy(tmp_path: Path) -> firn.LakeTable:
    """A table with an object of every kind."""
    table = flights(tmp_path)
    table.append(ROWS[:1], batch_id="b-1")
    table.merge()
    table.delete("delay = 9")
    table.sweep(older_than="0s")
    table.checkpoint()
    layout = table.journal.layout  # type: ignore[attr-defined]
    assert take(table.bucket, layout.work_key(""), clock_key=layout.clock_key, seconds=60)
    return table


def dumps(table: firn.LakeTable) -> dict[str, Dump]:
    return {i.key: dump_object(table.bucket, i.key) for i in table.bucket.list(f"{table.prefix}/").objects}


def test_every_object_of_a_table_has_a_kind(busy: firn.LakeTable) -> None:
    found = dumps(busy)
    assert {d.kind for d in found.values()} == {
        "log of a lake table",
        "Parquet file",
        "table definition",
        "maintenance lock",
        "record of sweeps",
        "batch claim",
        "note of who is at a long piece of work",
        "checkpoint of a lake table's log",
    }
    assert [d.problems for d in found.values() if d.problems] == []


def test_a_log_shows_its_files_columns_and_history(busy: firn.LakeTable) -> None:
    (log,) = (d for d in dumps(busy).values() if d.kind.startswith("log"))
    assert log.fields["op"] == "delete"
    assert log.sections["columns"] == ("date  TIMESTAMP", "delay  BIGINT", "origin  VARCHAR")
    live = {f.path for f in busy.snapshot().files}
    assert {entry.split("  ")[0] for entry in log.sections["files"]} == live
    assert len(log.sections["history of the logs it replaces"]) == 8
    text = log.to_text(limit=2)
    assert "… and 6 more" in text
    assert "delete" in text
    assert len(log.to_text().splitlines()) > len(text.splitlines())


def test_a_log_shows_tombstones_and_removed_files(tmp_path: Path) -> None:
    table = flights(tmp_path)
    table.merge()
    name = table.snapshot().version
    found = dump_object(table.bucket, f"flights/_log/{name}.jsonl")
    assert len(found.sections["logs it replaces"]) == 6
    assert len(found.sections["removed files"]) == 6


def test_a_parquet_file_shows_its_columns_and_statistics(busy: firn.LakeTable) -> None:
    file = busy.snapshot().files[0]
    found = dump_object(busy.bucket, file.path)
    assert found.fields["rows"] == file.rows
    assert "delay  int64" in found.sections["columns"]
    (group,) = (entries for title, entries in found.sections.items() if title.startswith("row group"))
    assert any(line.startswith("delay  ") and "0 nulls" in line for line in group)


def test_a_large_footer_is_read_from_the_end_alone(tmp_path: Path) -> None:
    wide = pa.table({f"a column with a long name, number {n}": [n] for n in range(1500)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    found = dump_url(str(tmp_path / "wide.parquet"))
    assert found.problems == ()
    assert len(found.sections["columns"]) == 1500


def test_a_log_of_the_reference() -> None:
    logs = Path(__file__).parents[2] / "format" / "icedb-logs"
    for path in logs.glob("*.jsonl"):
        found = dump_url(str(path))
        assert found.kind == "log of a lake table"
        assert "reference" in found.fields["written by"]
        assert found.problems == ()


def test_a_directory_lists_its_objects(busy: firn.LakeTable, tmp_path: Path) -> None:
    found = dump_url(f"{tmp_path}/flights/")
    assert len(found.sections["objects"]) == len(dumps(busy))
    assert found.bytes == sum(d.bytes for d in dumps(busy).values())


def test_what_isnt_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for url in (tmp_path / "no", tmp_path / "empty", "memory://dump-nothing/a/b", "memory://dump-nothing"):
        with pytest.raises(firn.ObjectNotFoundError):
            dump_url(str(url))


def test_an_object_in_a_bucket() -> None:
    db = firn.connect("memory://dump-one/prod")
    db.create_table("t").append([{"n": 1}])
    assert dump_url("memory://dump-one/prod/t/_firn/table.json").fields["name"] == "t"
    assert dump_url("memory://dump-one/prod/t").kind == "directory"


# -- damage


def test_damaged_objects_are_shown_with_their_problems(busy: firn.LakeTable) -> None:
    for info in busy.bucket.list("flights/").objects:
        whole = busy.bucket.get(info.key).data
        for damaged in (
            b"",
            whole[:-7],
            whole[: len(whole) // 2],
            b"\xff" + whole[1:],
            whole.replace(b'"', b"'"),
        ):
            busy.bucket.put(info.key, damaged)
            found = dump_object(busy.bucket, info.key)
            assert found.bytes == len(damaged)
            assert found.to_text()
            orjson.loads(encode(found.to_json()))
            if damaged != whole and not (damaged.startswith(b"PAR1") and damaged.endswith(b"PAR1")):
                assert found.problems, (info.key, damaged[:50])
        busy.bucket.put(info.key, whole)


def test_every_flipped_byte_of_small_objects_is_survived(busy: firn.LakeTable) -> None:
    for key in (i.key for i in busy.bucket.list("flights/_firn/").objects):
        whole = busy.bucket.get(key).data
        for at in range(0, len(whole), 3):
            busy.bucket.put(key, whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
            found = dump_object(busy.bucket, key)
            assert orjson.loads(encode(found.to_json()))["bytes"] == len(whole)
            assert found.to_text()


def test_a_line_that_isnt_json_is_shown_in_its_place(tmp_path: Path) -> None:
    table = flights(tmp_path)
    key = f"flights/_log/{table.snapshot().version}.jsonl"
    lines = table.bucket.get(key).data.split(b"\n")
    table.bucket.put(key, b"\n".join([*lines[:-1], b'{"p": "broken']))
    found = dump_object(table.bucket, key)
    assert found.fields["op"] == "append"
    (entry,) = found.sections["files"]
    assert entry["text"] == '{"p": "broken'
    assert "! line 3: " in found.to_text()
    assert any("readers refuse it" in p for p in found.problems)


def test_a_newer_format_is_shown_too(tmp_path: Path) -> None:
    table = flights(tmp_path)
    key = f"flights/_log/{table.snapshot().version}.jsonl"
    first, _, rest = table.bucket.get(key).data.partition(b"\n")
    covered = first.rpartition(b',"head":')[0].replace(b'"v":1,"sch"', b'"v":9,"sch"', 1)
    newer = covered + b',"head":%d}}\n' % zlib.crc32(covered) + rest
    table.bucket.put(key, newer)
    found = dump_object(table.bucket, key)
    assert found.fields["format version"] == 9
    assert any("version 9" in p for p in found.problems)


def test_other_bytes() -> None:
    bucket = firn.connect("memory://").bucket
    for key, data, kind in (
        ("a", b"", "empty object"),
        ("b", b"plain text", "bytes"),
        ("c", bytes(range(256)), "bytes"),
        ("d", b'{"x": 1}', "JSON"),
        ("e", b"[1, 2]", "JSON"),
    ):
        bucket.put(key, data)
        found = dump_object(bucket, key)
        assert (found.kind, found.problems) == (kind, ())
    assert dump_object(bucket, "b").fields == {"text": "plain text"}
    assert dump_object(bucket, "c").fields["hex"].startswith("0001 0203")
    assert dump_object(bucket, "e").sections == {"values": (1, 2)}


# -- the command


def test_the_command(busy: firn.LakeTable, tmp_path: Path) -> None:
    path = tmp_path / "flights" / "_firn" / "lock.json"
    assert "maintenance lock" in done("dump", path).out
    assert done("dump", path, "--json").json["fields"]["epoch"] == 3
    assert "part-m-" in done("dump", tmp_path / "flights").out
    assert run("dump", tmp_path / "no").code == 3
    assert run("dump", "nonsense://x/y").code == 2
