"""Small things that a new user meets: reprs, limits, versions."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import firn
from cli_runs import done, flights, run


@pytest.fixture
def t() -> Any:
    table = firn.connect("memory://").create_table("t")
    table.append([{"a": n, "b": "<x>"} for n in range(5)])
    return table


def test_a_scan_says_what_it_is_and_reads_nothing_for_it(t: Any) -> None:
    before = t.bucket.counters.requests
    assert repr(t.scan()) == "<Scan of t>"
    scan = t.scan(columns=["a"], where="a > 1", limit=2)
    assert repr(scan) == "<Scan of t columns=['a'] where='a > 1' limit=2>"
    assert t.bucket.counters.requests == before
    shown = scan._repr_html_()
    assert "<td>a</td><td>BIGINT</td>" in shown
    assert "where=&#x27;a &gt; 1&#x27;" in shown
    assert "1 of 1 files" in shown


def test_a_limit_bounds_every_answer(t: Any) -> None:
    t.append([{"a": 9, "b": "y"}])
    scan = t.scan(limit=3)
    assert scan.to_arrow().num_rows == sum(b.num_rows for b in scan.to_batches()) == scan.count() == 3
    assert len(scan.to_pandas()) == len(scan.to_polars()) == 3
    assert "limit      3 rows" in scan.explain()
    assert t.scan(limit=0).to_arrow().schema == t.scan().to_arrow().schema
    assert t.scan(limit=99).to_arrow().num_rows == t.scan(limit=99).count() == 6


def test_files_behind_a_limit_are_not_read(t: Any) -> None:
    for _ in range(5):
        t.append([{"a": 1, "b": "z"}])
    t.snapshot()
    t.append([{"a": 1, "b": "z"}])
    before = t.bucket.counters.as_dict()
    t.scan(limit=1).to_arrow()
    assert t.bucket.counters.since(before)["get"] <= 2


def test_a_table_with_a_key_takes_a_limit_too() -> None:
    table = firn.connect("memory://").create_table("t", key=["a"])
    table.append([{"a": n, "b": n} for n in range(5)])
    table.append([{"a": n, "b": -n} for n in range(3)])
    assert table.scan(limit=4).to_arrow().num_rows == table.scan(limit=4).count() == 4


def test_a_table_tells_its_version(t: Any) -> None:
    assert t.version == t.snapshot().version
    keyed = firn.connect("memory://").create_table("k", kind="keyed")
    with keyed.open() as kv:
        kv.put(b"a", b"1")
        assert keyed.version == keyed.reader().version


def test_transactions_and_readers_say_what_they_are() -> None:
    db = firn.connect("memory://")
    db.create_table("r", kind="records")
    tx = db.begin()
    assert repr(tx) == f"<Transaction {tx.txid[:8]} open>"
    tx.rollback()
    assert "rolled back" in repr(tx)
    keyed = db.create_table("k", kind="keyed")
    with keyed.reader() as reader:
        assert repr(reader).startswith("<KeyedReader memory://k at ")
    assert repr(reader).endswith(" closed>")


def test_a_time_before_the_first_commit_is_an_error_in_the_shell(tmp_path: Path) -> None:
    table = flights(tmp_path)
    for command in ("scan", "partitions", "schema"):
        found = run(command, tmp_path / "flights", "--at", "1999-01-01")
        assert found.code == 3, command
        assert "1999-01-01" in found.err
    assert run("scan", tmp_path / "flights", "--at", table.history()[0].version, "--count").out == "1\n"


def test_the_log_of_a_keyed_table_ends_with_the_newest(tmp_path: Path) -> None:
    keyed = firn.connect(tmp_path).create_table("k", kind="keyed")
    with keyed.open(compaction=False) as kv:
        for n in range(3):
            kv.put(b"a", str(n).encode())
            keyed.compact()
    times = [commit["time_ms"] for commit in done("log", tmp_path / "k", "--json").json["history"]]
    assert times == sorted(times)
    newest = done("log", tmp_path / "k", "--json", "--limit", 1).json["history"]
    assert [commit["state"] for commit in newest] == ["current"]


def test_csv_of_all_kinds_of_values(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t")
    zone = dt.timezone.utc
    table.append(
        [
            {
                "n": 1,
                "x": 1.0,
                "s": 'a"b,c\nd',
                "t": dt.datetime(2001, 1, 2, 3, 4, 5),
                "z": dt.datetime(2001, 1, 2, 3, 4, 5, 600, zone),
                "d": dt.date(2001, 1, 2),
                "b": True,
                "y": b"\x01",
                "l": [1, 2],
                "c": Decimal("1.50"),
            },
            {"n": 2, "t": dt.datetime(2001, 1, 2, 3, 4, 5, 6), "z": dt.datetime(1900, 1, 1, tzinfo=zone)},
        ]
    )
    lines = done("scan", tmp_path / "t", "--csv").out.splitlines()
    assert lines == [
        "n,x,s,t,z,d,b,y,l,c",
        '1,1.0,"a""b,c',
        'd",2001-01-02 03:04:05,2001-01-02 03:04:05.000600+00:00,2001-01-02,true,01,"[1,2]",1.50',
        "2,,,2001-01-02 03:04:05.000006,1900-01-01 00:00:00+00:00,,,,,",
    ]
    assert len(done("scan", tmp_path / "t", "--csv", "-n", "1").out.splitlines()) == 3


def test_a_broken_pipe_is_no_failure(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t").append([{"n": n} for n in range(100_000)])
    program = "from firn.cli import main; main()"
    command = [sys.executable, "-c", program, "scan", str(tmp_path / "t"), "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_demo_says_at_once_that_spark_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.cli.demo.command.find_spec", lambda name: None)
    found = run("demo", tmp_path / "demo")
    assert found.code == 7
    assert "pip install 'firn[spark]'" in found.err
    assert not (tmp_path / "demo").exists()


def test_a_system_without_fcntl_is_told_which_it_needs() -> None:
    program = """
import sys
sys.modules["fcntl"] = None
import firn
try:
    firn.connect("memory://")
except firn.UnsupportedError as error:
    assert "Linux or macOS" in str(error) and "WSL" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
