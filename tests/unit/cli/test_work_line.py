"""The line about statements that take long: what it says, and when it goes."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import pytest

import firn
from cli_runs import done
from firn.cli.sql.answers import Format, print_answer
from firn.cli.terminal import waiting
from firn.cli.terminal.waiting import WorkLine


class Terminal(io.StringIO):
    """Standard error of a person, and whether a line was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.shown.set()


def test_the_line_says_how_far_work_is_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkLine, "first_s", 0.0)
    stream = Terminal()
    line = WorkLine(stream)
    assert stream.shown.wait(60)
    assert line.text() == "0 s"
    line.tasks(3, 20)
    assert line.text() == "0 s, 3 of 20 tasks"
    line.query(lambda: 42.4)
    assert line.text() == "0 s, 42 %"
    line.query(lambda: -1.0)
    assert line.text() == "0 s, 3 of 20 tasks"
    line.query(None)
    line.end()
    said = stream.getvalue()
    assert said.startswith("\r\x1b[2K0 s") and said.endswith("\r\x1b[2K")
    line.end()
    assert stream.getvalue() == said


def test_work_that_ends_soon_has_no_line() -> None:
    stream = Terminal()
    WorkLine(stream).end()
    assert stream.getvalue() == ""


def test_a_query_is_watched_and_the_line_goes_before_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = firn.connect(tmp_path)
    stream, told = Terminal(), list[bool]()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(WorkLine, "first_s", 0.0)
    monkeypatch.setattr(WorkLine, "query", lambda self, percent: told.append(percent is not None))
    with waiting.working(db) as answered:
        result = db.sql("SELECT 7 AS n")
        assert stream.shown.wait(60)

        def before() -> None:
            assert capsys.readouterr().out == ""
            answered()
            assert stream.getvalue().endswith("\r\x1b[2K")

        print_answer(result, Format("csv"), before)
    assert (told, capsys.readouterr().out) == ([True, False], "n\n7\n")
    assert db.engines.on_query is None and list(db.sql("SELECT 8 AS n")) == [{"n": 8}]
    assert told == [True, False]


def test_pipes_have_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkLine, "first_s", 0.0)
    found = done("sql", "SELECT count(*) AS n FROM range(1000000)", "--db", tmp_path, "--json")
    assert (found.out, found.err) == ('{"n":1000000}\n', "")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with waiting.working(firn.connect(tmp_path), quiet=True):
        pass
    assert stream.getvalue() == ""


def test_a_pipe_has_the_first_rows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.StringIO):
        flushed: list[str] = []  # noqa: RUF012

        def flush(self) -> None:
            self.flushed.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Pipe())
    rows = firn.connect(tmp_path).sql("SELECT i FROM range(100000) t(i)")
    print_answer(rows, Format("json"))
    assert 0 < Pipe.flushed[0].count("\n") < 100_000
