"""firn keep."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import firn
from cli_runs import done, run
from firn import keeping
from firn.cli.keep import kept_line
from firn.keeping import Keeping, KeepReport


def filled(directory: Path, commits: int = 20) -> firn.LakeTable:
    table = firn.connect(directory).create_table("events", properties={"inline": "64KB", "fold_at": 8})
    for n in range(commits):
        table.append([{"n": n}])
    return table


def test_once(tmp_path: Path) -> None:
    table = filled(tmp_path)
    found = done("keep", tmp_path, "--once")
    assert found.out == "events: folded 20 rows of 20 commits\n"
    assert done("keep", tmp_path, "events", "--once").out == "events: nothing to do\n"
    table.append([{"n": 20}])
    answer = done("keep", tmp_path, "--once", "--json").json
    assert (answer["tables"]["events"]["commits"], answer["tables"]["events"]["error"]) == (1, None)
    assert answer["requests"]["put"] > 0
    assert table.scan().count() == 21


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["nope", "--once"], 3, "no table 'nope'"),
        (["--once", "--budget", "soon"], 2, "not a duration"),
        (["--interval", "9s..1s"], 2, "interval is"),
        (["--once", "--option", "conditional_put=disabled"], 7, "keeping tables needs a lock"),
    ],
)
def test_wrong_use(tmp_path: Path, options: list[str], code: int, message: str) -> None:
    filled(tmp_path, 1)
    found = run("keep", tmp_path, *options)
    assert (found.code, message in found.err) == (code, True)


def test_a_table_by_its_url_is_told_how(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    found = run("keep", tmp_path / "events", "--once")
    assert (
        found.code == 2 and f"{tmp_path}/events is a table: write firn keep {tmp_path} events." in found.err
    )
    assert run("keep", tmp_path / "nope" / "events", "--once").code == 3


def test_nothing_is_there_to_keep(tmp_path: Path) -> None:
    assert run("keep", tmp_path, "--once").code == 3


def test_a_budget_that_was_over_at_once_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, 1)
    monkeypatch.setattr(Keeping, "_is_ended", lambda self, began: True)
    found = run("keep", tmp_path, "--once", "--budget", "1s")
    assert found.code == 0 and f"No table of {tmp_path} had its turn within 1s." in found.err


def test_a_table_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    table.bucket.put(table.bucket.list("events/_log/").objects[0].key, b"{")
    found = run("keep", tmp_path, "--once")
    assert (found.code, found.out) == (1, "events: failed\n")
    assert "events isn't kept any more" in found.err


def test_lines_fit_80_columns() -> None:
    most = KeepReport("a" * 15, 3, 128, 12_800, 64, 1_234)
    assert len(kept_line(most)) <= 80
    assert kept_line(KeepReport("t", busy=1)) == "t: somebody else is at it"


def test_a_signal_ends_it_after_the_commit_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path)

    def interrupted(stop: threading.Event, seconds: float) -> None:
        assert seconds == 7
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(keeping, "pause", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    assert done("keep", tmp_path, "--interval", "7s").out == "events: folded 20 rows of 20 commits\n"
    assert signal.getsignal(signal.SIGTERM) == before
    assert done("keep", tmp_path, "--interval", "7s", "--json").lines == []
    assert table.scan().count() == 20


@pytest.mark.long
def test_a_process_is_ended_by_sigterm(tmp_path: Path) -> None:
    filled(tmp_path)
    program = "import sys; sys.argv[0] = 'firn'; from firn.cli import main; main()"
    arguments = [sys.executable, "-c", program, "keep", str(tmp_path), "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert '"commits":20' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
