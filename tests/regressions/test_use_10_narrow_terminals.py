"""At 80 columns `firn tables` broke a time over three lines, and `firn scan` of 14 columns broke numbers in two."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import firn
from cli_runs import done, flights
from firn.cli.terminal import waiting
from firn.cli.terminal.grid import lay_out

TIME = "2001-01-02 03:04:05"


def shown(columns: list[str], rows: list[list[str]], width: int, right: tuple[int, ...] = ()) -> list[str]:
    found = lay_out(columns, rows, right=right, width=width).lines
    assert max(map(cell_len, found), default=0) <= width
    return list(found)


def test_what_fits_stands_side_by_side() -> None:
    assert shown(["origin", "n"], [["DTW", "1"], ["HNL", "20"]], 80, (1,)) == [
        "origin   n",
        "──────────",
        "DTW      1",
        "HNL     20",
    ]


def test_a_long_header_breaks_between_words_and_long_text_wraps() -> None:
    note = "one two three four five six"
    lines = shown(["last change", "note"], [[TIME, note]], 40)
    assert lines[2:] == [f"{TIME}  {'one two three four'}", f"{'':19}  five six"]


@pytest.mark.parametrize("width", [40, 80])
def test_fourteen_numbers_are_a_block_and_each_is_whole(width: int) -> None:
    columns = [f"column_{n}" for n in range(14)]
    numbers = [f"{n * 1234567.125}" for n in range(14)]
    lines = shown(columns, [numbers, numbers], width, tuple(range(14)))
    assert lines[13] == f"column_13  {numbers[13]}"
    assert len(lines) == 2 * 14 + 1


def test_times_are_never_broken() -> None:
    rows = [[TIME, TIME, "some text that is long enough"]]
    assert any(TIME in line for line in shown(["a", "b", "c"], rows, 50))
    assert shown(["a", "b", "c"], rows, 40)[0] == f"a  {TIME}"


def test_one_row_is_one_line_and_a_terminal_is_told_nothing() -> None:
    assert shown(["a"], [["x\ny\x1b[31m"]], 80)[-1] == "x\\ny\\x1b[31m"


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.text("ab 1é漢", max_size=20), min_size=n, max_size=n),
            st.lists(st.lists(st.text("ab 1é漢", max_size=40), min_size=n, max_size=n), max_size=4),
        )
    ),
    st.integers(12, 120),
)
def test_nothing_is_wider_than_the_terminal_and_no_letter_is_lost(
    table: tuple[list[str], list[list[str]]], width: int
) -> None:
    columns, rows = table
    text = "".join(shown(columns, rows, width)).replace(" ", "")
    for row in rows:
        for letter in "ab1é漢":
            assert text.count(letter) >= "".join(row).count(letter)


@pytest.mark.parametrize("width", [40, 80])
def test_commands_fit_the_terminal(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flights(tmp_path)
    firn.connect(tmp_path).create_table("delays", kind="keyed")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("firn.cli.terminal.output._is_terminal", lambda stream: True)
    for command in (
        ["tables"],
        ["log", "--db"],
        ["scan", "--db"],
        ["partitions", "--db"],
        ["schema", "--db"],
    ):
        found = done(*command, tmp_path, *(["flights"] if len(command) > 1 else []))
        lines = re.sub(r"\x1b\[[0-9;]*m", "", found.out).splitlines()
        # A version has a line of its own, whole: it is there to be copied.
        broken = [
            line for line in lines if cell_len(line) > width and not re.fullmatch(r" *\d{13}_\S+", line)
        ]
        assert not broken, (command, found.out)


def test_a_pipe_gets_one_line_a_row(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t").append([{f"column_{n}": "x" * 20 for n in range(14)}] * 3)
    assert len(done("scan", tmp_path / "t").out.splitlines()) == 5


def test_the_spinner_of_a_start_of_spark_is_seen_and_its_chatter_is_not() -> None:
    """Both write to definition 2: the one through Python, the other as a child process."""
    program = """
import subprocess, sys
from firn.cli.terminal import waiting
with waiting._stderr_in_file(), waiting.spinner("starting Spark"):
    subprocess.run(["sh", "-c", "echo chatter >&2"])
print("after", file=sys.stderr)
"""
    leader, follower = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", program], stderr=follower, stdout=subprocess.PIPE, check=True, timeout=60
    )
    os.close(follower)
    seen = b""
    try:
        while part := os.read(leader, 65536):
            seen += part
    except OSError:
        pass
    os.close(leader)
    assert b"starting Spark" in seen
    assert b"after" in seen
    assert b"chatter" not in seen


def test_without_a_terminal_there_is_no_spinner(capfd: pytest.CaptureFixture[str]) -> None:
    with waiting.spinner("starting Spark"):
        pass
    assert capfd.readouterr().err == ""
