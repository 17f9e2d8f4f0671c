"""scan, tables, schema, partitions, log."""

from __future__ import annotations

import csv
import io
import sys
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import firn
from cli_runs import ROWS, done, flights, run
from firn.cli.terminal import output


def test_scan_prints_a_table_csv_or_json_lines(tmp_path: Path) -> None:
    flights(tmp_path)
    shown = done("scan", tmp_path / "flights").out.splitlines()
    assert shown[0].split() == ["date", "delay", "origin"]
    assert len(shown) == 2 + len(ROWS)
    rows = list(csv.DictReader(io.StringIO(done("scan", tmp_path / "flights", "--csv").out)))
    assert sorted(r["date"] for r in rows) == [str(r["date"]) for r in ROWS]
    lines = done("scan", tmp_path / "flights", "--json").lines
    expected = [{**r, "date": r["date"].isoformat()} for r in ROWS]  # type: ignore[attr-defined]
    assert sorted(lines, key=lambda r: r["date"]) == expected


def test_scan_chooses_columns_rows_and_how_many(tmp_path: Path) -> None:
    flights(tmp_path)
    found = done("scan", tmp_path / "flights", "-c", "origin, delay", "-w", "delay > 15", "--json").lines
    assert all(list(row) == ["origin", "delay"] and row["delay"] > 15 for row in found)
    assert len(found) == 3
    assert len(done("scan", tmp_path / "flights", "--limit", 2, "--json").lines) == 2
    assert done("scan", tmp_path / "flights", "--limit", 0, "--json").out == ""
    assert done("scan", tmp_path / "flights", "-w", "origin = 'DTW'", "--count").out == "3\n"
    assert done("scan", tmp_path / "flights", "--count", "--json").json["rows"] == 6


def test_scan_without_a_limit_shows_the_first_hundred(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("many")
    table.append([{"n": n} for n in range(150)])
    found = done("scan", tmp_path / "many")
    assert len(found.out.splitlines()) == 2 + 100
    assert "--limit" in found.err
    assert len(done("scan", tmp_path / "many", "--limit", 120).out.splitlines()) == 2 + 120
    assert len(done("scan", tmp_path / "many", "--json").lines) == 150


def test_scan_as_of_a_version(tmp_path: Path) -> None:
    table = flights(tmp_path)
    version = table.snapshot().version
    table.append(ROWS)
    assert done("scan", tmp_path / "flights", "--count", "--at", version).out == "6\n"
    assert done("scan", tmp_path / "flights", "--count").out == "12\n"
    assert run("scan", tmp_path / "flights", "--at", "soon").code == 2
    table.sweep(older_than="0s")
    table.merge()
    table.sweep(older_than="0s")
    assert run("scan", tmp_path / "flights", "--at", version).code == 3


def test_explain_says_which_files(tmp_path: Path) -> None:
    flights(tmp_path)
    where = "date >= '2001-03-01'"
    text = done("scan", tmp_path / "flights", "-w", where, "--explain").out
    assert "2 of 6" in text
    found = done("scan", tmp_path / "flights", "-w", where, "--explain", "--json").json
    assert found["files_in_all"] == 6
    assert all("2001-03" in f["path"] for f in found["files"])


@pytest.mark.parametrize(
    "where", ["nope > 1", "delay >", "delay > (SELECT 1)", "read_text('/etc/passwd') = ''"]
)
def test_bad_predicates(tmp_path: Path, where: str) -> None:
    flights(tmp_path)
    found = run("scan", tmp_path / "flights", "--where", where)
    assert found.code == 2
    assert found.err.startswith("error: ")
    assert "Traceback" not in found.err


def test_bad_columns_and_formats(tmp_path: Path) -> None:
    flights(tmp_path)
    assert run("scan", tmp_path / "flights", "-c", "origin,nope").code == 2
    assert run("scan", tmp_path / "flights", "--csv", "--json").code == 2


def test_names_and_values_are_taken_literally(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("odd")
    table.append([{"a,b": "[red]x[/red]", " $c": ":smile:"}])
    found = done("scan", tmp_path / "odd")
    assert "[red]x[/red]" in found.out
    assert ":smile:" in found.out
    assert done("scan", tmp_path / "odd", "-c", '"a,b"', "--json").lines == [{"a,b": "[red]x[/red]"}]
    assert done("scan", tmp_path / "odd", "-c", " $c", "--json").lines == [{" $c": ":smile:"}]


def test_values_of_every_kind_are_printed(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("kinds")
    table.append(
        pa.table(
            {
                "ns": pa.array([1], pa.timestamp("ns")),
                "tz": pa.array([datetime(2001, 1, 1, tzinfo=timezone.utc)]),
                "blob": pa.array([b"\x01"]),
                "list": pa.array([[1, 2]]),
                "struct": pa.array([{"x": "y"}]),
                "dec": pa.array(["1.50"]).cast(pa.decimal128(5, 2)),
                "none": pa.array([None], pa.int64()),
            }
        )
    )
    (row,) = done("scan", tmp_path / "kinds", "--json").lines
    assert row["ns"].endswith("00:00:00.000000001")
    assert (row["blob"], row["list"], row["struct"], row["dec"], row["none"]) == (
        "AQ==",
        [1, 2],
        {"x": "y"},
        "1.50",
        None,
    )
    assert done("scan", tmp_path / "kinds", "--csv").out.splitlines()[1].endswith(',"{""x"":""y""}",1.50,')
    assert "null" in done("scan", tmp_path / "kinds").out


def test_tables(tmp_path: Path) -> None:
    flights(tmp_path)
    firn.connect(tmp_path).create_table("empty")
    found = done("tables", tmp_path, "--json").json["tables"]
    assert [(t["name"], t["rows"], t["files"]) for t in found] == [("empty", 0, 0), ("flights", 6, 6)]
    assert found[1]["partition_by"] == ["month(date)"]
    shown = done("tables", tmp_path).out
    assert "month(date)" in shown
    assert done("tables", tmp_path, "--names").out == "empty\nflights\n"
    assert done("tables", tmp_path, "--names", "--json").json["tables"] == ["empty", "flights"]


def test_a_database_without_tables(tmp_path: Path) -> None:
    found = done("tables", tmp_path)
    assert found.out == ""
    assert "No tables" in found.err
    assert done("tables", tmp_path, "--json").json["tables"] == []


def test_schema(tmp_path: Path) -> None:
    flights(tmp_path, retention="90d")
    text = done("schema", tmp_path / "flights").out
    assert "TIMESTAMP" in text
    assert "partitioned by: month(date)" in text
    assert "retention: 90d" in text
    found = done("schema", tmp_path / "flights", "--json").json
    assert found["columns"][1] == {"name": "delay", "type": "BIGINT"}
    assert found["sort_by"] == ["date"]
    firn.connect(tmp_path).create_table("empty")
    assert "No columns yet" in done("schema", tmp_path / "empty").err


def test_partitions(tmp_path: Path) -> None:
    flights(tmp_path)
    found = done("partitions", tmp_path / "flights", "--json").json["partitions"]
    assert [p["values"] for p in found] == [{"date_month": f"2001-0{m}"} for m in (1, 2, 3)]
    assert "2001-03" in done("partitions", tmp_path / "flights").out


def test_log(tmp_path: Path) -> None:
    table = flights(tmp_path)
    first = table.history()[0].version
    table.delete("delay = 9")
    table.sweep(older_than="0s")
    found = done("log", tmp_path / "flights", "--json").json["history"]
    assert [c["op"] for c in found] == ["append"] * 6 + ["delete", "sweep"]
    text = done("log", tmp_path / "flights").out
    assert 'where "delay" = ?' in text  # an erasure's values aren't kept
    assert "1 data file" in text
    assert len(done("log", tmp_path / "flights", "--limit", 2, "--json").json["history"]) == 2
    assert done("log", tmp_path / "flights", "--limit", 0, "--json").json["history"] == []
    assert run("log", tmp_path / "flights", "--at", first).code == 3  # swept


def test_log_up_to_a_version(tmp_path: Path) -> None:
    table = flights(tmp_path)
    third = table.history()[2].version
    found = done("log", tmp_path / "flights", "--at", third, "--json").json["history"]
    assert [c["version"] for c in found][-1] == third
    assert len(found) == 3


def test_log_on_a_narrow_terminal_keeps_versions_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = flights(tmp_path)
    table.delete("delay = 9")

    def terminal() -> Console:
        return Console(file=sys.stdout, force_terminal=True, no_color=True, width=80, highlight=False)

    monkeypatch.setattr(output, "stdout", terminal)
    text = done("log", tmp_path / "flights").out
    assert all(c.version in text for c in table.history())
    assert all(len(line) <= 110 for line in text.splitlines())
