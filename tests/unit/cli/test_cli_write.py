"""create, append and drop."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from cli_runs import ROWS, done, flights, run
from firn.cli.input.inputs import spark_pattern
from firn.lake.definition.keys import KeySpec

ADD = {"date": datetime(2001, 4, 1, 12), "delay": 7, "origin": "SFO"}
TEXT = {**ADD, "date": "2001-04-01T12:00:00"}


def rows_of(directory: Path, name: str = "flights") -> list[dict[str, object]]:
    return firn.connect(directory).table(name).scan().to_arrow().to_pylist()  # type: ignore[no-any-return]


def test_create(tmp_path: Path) -> None:
    args = [
        "--partition-by",
        "month(date)",
        "-p",
        "bucket(4, origin)",
        "--sort-by",
        "delay desc",
        "-c",
        "date=TIMESTAMP",
    ]
    done(
        "create",
        tmp_path / "db" / "t",
        *args,
        "-c",
        "origin=VARCHAR",
        "-c",
        "delay=BIGINT",
        "--property",
        "retention=90d",
    )
    made = firn.connect(tmp_path / "db").table("t")
    assert [str(f) for f in made.partition_spec.fields] == ["month(date)", "bucket(4, origin)"]
    assert made.context.definition.sort_by == ("delay desc",)
    assert made.context.definition.properties == {"retention": "90d"}
    assert list(made.snapshot().columns) == ["date", "origin", "delay"]
    found = run("create", tmp_path / "db" / "t", "--json")
    assert found.code == 2
    assert found.json["error"]["kind"] == "table_exists"


def test_create_with_a_key(tmp_path: Path) -> None:
    done("create", tmp_path / "db" / "t", "-k", "place", "-k", "id", "--version-by", "at", "-p", "place")
    made = firn.connect(tmp_path / "db").table("t")
    assert made.keys == KeySpec(("place", "id"), "at")
    assert run("create", tmp_path / "db" / "u", "--version-by", "at").code == 2


def test_rows_of_a_table_with_a_key_take_others_places(tmp_path: Path) -> None:
    done("create", tmp_path / "stock", "-k", "id")
    done("append", tmp_path / "stock", stdin='[{"id": 1, "n": 5}, {"id": 2, "n": 6}]')
    done("append", tmp_path / "stock", "--upsert", stdin='[{"id": 1, "n": 4}]')
    assert sorted(row["n"] for row in rows_of(tmp_path, "stock")) == [4, 6]
    flights(tmp_path)
    refused = run("append", tmp_path / "flights", "--upsert", stdin="[]")
    assert refused.code == 2 and "flights has no key" in refused.err


@pytest.mark.parametrize(
    "args",
    [
        ["--partition-by", "month("],
        ["--property", "nonsense=1"],
        ["--property", "retention"],
        ["--column", "a=NOT A TYPE"],
        ["--column", "a"],
        ["--column", "a=BIGINT", "--sort-by", "b"],
        ["--column", "a=BIGINT", "--partition-by", "month(a)"],
    ],
)
def test_create_refuses_nonsense(tmp_path: Path, args: list[str]) -> None:
    assert run("create", tmp_path / "t", *args).code == 2
    assert firn.connect(tmp_path).tables() == []


@pytest.mark.parametrize(
    "how", ["json", "jsonl", "csv", "tsv", "parquet", "stdin json", "stdin jsonl", "stdin csv"]
)
def test_append_reads_files_and_standard_input(tmp_path: Path, how: str) -> None:
    flights(tmp_path)
    bodies = {
        "json": orjson.dumps([TEXT]),
        "jsonl": b"\n" + orjson.dumps(TEXT) + b"\n\n",
        "csv": b'date,delay,origin\n2001-04-01T12:00:00,7,"SFO"\n',
        "tsv": b"date\tdelay\torigin\n2001-04-01 12:00:00\t7\tSFO\n",
    }
    if how.startswith("stdin"):
        found = done("append", tmp_path / "flights", "--json", stdin=bodies[how.split()[1]])
    else:
        file = tmp_path / f"rows.{how}"
        if how == "parquet":
            pq.write_table(pa.Table.from_pylist([ADD]), file)
        else:
            file.write_bytes(bodies[how])
        found = done("append", tmp_path / "flights", file, "--json")
    assert found.json["rows"] == 1
    assert found.json["requests"]["put"] >= 2
    assert rows_of(tmp_path)[-1] == ADD


def test_append_takes_the_columns_of_all_rows(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t")
    done("append", tmp_path / "t", stdin='{"a": 1}\n{"b": "x"}\n')
    assert rows_of(tmp_path, "t") == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_append_of_several_files_is_one_commit(tmp_path: Path) -> None:
    table = flights(tmp_path)
    (tmp_path / "a.json").write_bytes(orjson.dumps([TEXT]))
    (tmp_path / "b.csv").write_text("date,delay,origin\n2001-05-01,8,LAX\n")
    done("append", tmp_path / "flights", tmp_path / "a.json", tmp_path / "b.csv")
    assert len(table.history()) == len(ROWS) + 1
    assert table.scan().count() == len(ROWS) + 2


def test_append_once_by_batch_id(tmp_path: Path) -> None:
    flights(tmp_path)
    body = orjson.dumps(TEXT)
    assert not done("append", tmp_path / "flights", "--batch-id", "b1", "--json", stdin=body).json[
        "duplicate"
    ]
    assert done("append", tmp_path / "flights", "--batch-id", "b1", "--json", stdin=body).json["duplicate"]
    assert "already" in done("append", tmp_path / "flights", "--batch-id", "b1", stdin=body).out
    assert len(rows_of(tmp_path)) == len(ROWS) + 1


def test_append_through_a_query(tmp_path: Path) -> None:
    flights(tmp_path)
    query = "SELECT * REPLACE (upper(origin) AS origin) FROM _rows"
    done("append", tmp_path / "flights", "--query", query, stdin=orjson.dumps({**TEXT, "origin": "sfo"}))
    assert rows_of(tmp_path)[-1] == ADD


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_append_reads_times_in_a_given_format(tmp_path: Path, kind: str) -> None:
    firn.connect(tmp_path).create_table("t", partition_by=["month(date)"])
    body = '[{"date": "2001/04/01 12:00", "n": "7"}]' if kind == "json" else "date,n\n2001/04/01 12:00,7\n"
    done("append", tmp_path / "t", "--timestamp-format", "%Y/%m/%d %H:%M", stdin=body)
    (row,) = rows_of(tmp_path, "t")
    assert row["date"] == datetime(2001, 4, 1, 12)


def test_text_stays_text_where_the_table_has_text(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t", schema={"zip": "VARCHAR"})
    done("append", tmp_path / "t", stdin="zip\n01234\n")
    assert rows_of(tmp_path, "t") == [{"zip": "01234"}]


@pytest.mark.parametrize(
    ("body", "args"),
    [
        (b'{"a": 1}\n{"a": \n', []),
        (b"[1, 2]", []),
        (b'["x"', []),
        (b"a,b\n1\n", []),
        (b"\xff\xfe\x00", []),
        (b"PAR1 but not really", []),
        (b"a,b\n1,2\n", ["--format", "parquet"]),
        (b"a,b\n1,2\n", ["--format", "nonsense"]),
        (b"", ["--format", "parquet"]),
        (b"a\n1\n", ["--timestamp-format", "%Q"]),
        (b"a\n1\n", ["--timestamp-format", "yyyy/MM/dd"]),
        (b"a\n1\n", ["--query", "DELETE FROM _rows"]),
        (b'{"date": "tomorrow", "delay": 1}', []),
        (b'{"delay": "late", "date": "2001-01-01"}', []),
    ],
)
def test_unreadable_input_is_refused_and_changes_nothing(
    tmp_path: Path, body: bytes, args: list[str]
) -> None:
    table = flights(tmp_path)
    before = table.snapshot().version
    found = run("append", tmp_path / "flights", *args, stdin=body)
    assert found.code == 2, found
    assert found.err.startswith("error: ")
    assert "Traceback" not in found.err
    assert table.snapshot().version == before


def test_a_file_that_isnt_there_or_is_a_directory(tmp_path: Path) -> None:
    flights(tmp_path)
    assert run("append", tmp_path / "flights", tmp_path / "no.csv").code == 3
    assert run("append", tmp_path / "flights", tmp_path).code == 2
    assert run("append", tmp_path / "no", tmp_path / "no.csv").code == 3


def test_drop_asks_or_is_told(tmp_path: Path) -> None:
    flights(tmp_path)
    found = run("drop", tmp_path / "flights")
    assert found.code == 2
    assert "--yes" in found.err
    assert firn.connect(tmp_path).tables() == ["flights"]
    planned = done("drop", tmp_path / "flights", "--dry-run", "--json").json
    assert (planned["dropped"], planned["dry_run"], planned["still_has"]) == (False, True, [])
    assert "flights/_firn/table.json" not in planned["objects"] and planned["bytes"] > 0
    lines = done("drop", tmp_path / "flights", "--dry-run").out.splitlines()
    assert lines[0].startswith(f"would drop flights: {len(planned['objects'])} objects, ")
    assert [line.strip() for line in lines[1:]] == planned["objects"]
    assert firn.connect(tmp_path).tables() == ["flights"]
    dropped = done("drop", tmp_path / "flights", "--yes", "--json").json
    assert dropped["dropped"] and dropped["objects"] == planned["objects"]
    assert firn.connect(tmp_path).tables() == []
    for how in ("--yes", "--dry-run", "--json"):
        assert run("drop", tmp_path / "flights", how).code == 3


def test_time_formats_are_those_that_spark_knows_too() -> None:
    assert spark_pattern("%d.%m.%Y at %H o'clock") == "dd.MM.yyyy 'at' HH 'o''clock'"
    for wrong, words in (
        ("%Q %Y", "'%Q', which"),
        ("%Y %", "'%', which"),
        ("%%", "'%%'"),
        ("yyyy", "no directive"),
    ):
        with pytest.raises(firn.InvalidInputError, match=words):
            spark_pattern(wrong)
