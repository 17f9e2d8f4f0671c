"""`firn sql`: scripts, parameters, and the interactive shell."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pytest

import firn
from cli_runs import done, run
from firn.cli.sql import prompt
from firn.cli.sql.answers import Format
from firn.cli.sql.prompt import Prompt

SCRIPT = """
CREATE TABLE stock (id BIGINT, n INTEGER);  -- with ; in it
INSERT INTO stock VALUES (1, 5), (2, 6);
MERGE INTO stock t USING (VALUES (2, 7), (3, 9)) AS s(id, n) ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM stock ORDER BY id;
"""


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text(SCRIPT)
    out = done("sql", "-f", tmp_path / "load.sql", "--db", tmp_path / "db").out
    assert out.splitlines() == [
        "create_table: done",
        "insert: 2 rows inserted, 1 file added",
        "merge_into: 1 row inserted, 1 row updated, 2 files added, 1 file removed",
        "id  n", "─────", " 1  5", " 2  7", " 3  9",
    ]  # fmt: skip
    asked = done(
        "sql", "SELECT n FROM stock WHERE id = $id", "--param", "id=3", "--db", tmp_path / "db", "--json"
    )
    assert orjson.loads(asked.out) == {"n": 9}
    called = done(
        "sql", "CALL checkpoint(stock); CALL sweep(stock, dry_run => true)", "--db", tmp_path / "db"
    ).out
    assert called.splitlines() == ["checkpoint: logs 2", "sweep: dry run"]
    changed = done("sql", "DELETE FROM stock", "--db", tmp_path / "db", "--json").out
    assert orjson.loads(changed)["rows_deleted"] == 3


def test_the_first_error_ends_a_script(tmp_path: Path) -> None:
    text = "CREATE TABLE a (n INTEGER);\nDELETE\n  a;\nCREATE TABLE b (n INTEGER)"
    found = run("sql", text, "--db", tmp_path)
    assert found.code == 2 and "(line 3, column 3)" in found.err
    assert firn.connect(tmp_path).tables() == ["a"]
    for wrong in (
        ["", "--db", tmp_path],
        ["SELECT 1", "-f", "x", "--db", tmp_path],
        ["-f", "no.sql", "--db", tmp_path],
    ):
        assert run("sql", *wrong).code == 2


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Iterable[str]], str]:
    """What the shell prints for lines that somebody types."""
    firn.connect(tmp_path).create_table("stock").append([{"id": 1, "n": 5}])

    def type_lines(lines: Iterable[str]) -> str:
        waiting = iter(lines)

        def read(prompt: str) -> str:
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        Prompt(firn.connect(tmp_path), Format(), read=read).run()
        found = capsys.readouterr()
        return found.out + found.err

    return type_lines


def test_the_interactive_shell(typed: Callable[[Iterable[str]], str]) -> None:
    said = typed(
        ["SELECT n", " + 1 AS m", "FROM stock;", "\\d", "\\d stock", "SELECT nope;", "\\x", "\\format json"]
    )
    assert all(
        word in said
        for word in ("m", "6", "stock", "lake", "column_name", "BIGINT", "nope", "isn't known here")
    )
    assert '{"n":5}' in typed(["\\format json", "SELECT n FROM stock;"])
    assert "timing is on" in typed(["\\timing", "UPDATE stock SET n = 1;", "\\q", "DROP TABLE stock;", "y"])


def test_the_shell_outlives_what_nobody_foresaw(
    typed: Callable[[Iterable[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "isn't Unicode" in typed(["SELECT '\udcff';", "SELECT 1;"])
    monkeypatch.setattr(prompt, "print_answer", lambda *_: 1 // 0)
    assert typed(["SELECT 1;", "SELECT 1;"]).count("unexpected ZeroDivisionError") == 2


def test_values_that_python_has_none_for_are_texts(tmp_path: Path) -> None:
    query = (
        "SELECT '290000-01-01'::DATE AS d, ['infinity'::TIMESTAMP] AS l, INTERVAL 1 MONTH AS i, "
        "{'t': '2020-01-01 00:00:00.123456789'::TIMESTAMP_NS} AS s"
    )
    asked = ("sql", query, "--db", tmp_path)
    firn.connect(tmp_path).create_table("t")
    values = {
        "d": "290000-01-01",
        "l": ["infinity"],
        "i": "1 month",
        "s": {"t": "2020-01-01 00:00:00.123456789"},
    }
    assert orjson.loads(done(*asked, "--json").out) == values
    cells = next(csv.DictReader(done(*asked, "--csv").out.splitlines()))
    assert (cells["d"], cells["i"], orjson.loads(cells["l"])) == (values["d"], values["i"], values["l"])
    assert "290000-01-01" in done(*asked).out


def test_a_pipe_gets_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t").append([{"s": "日本"}])
    program = ["-c", "from firn.cli import main; main()", "sql", "FROM t", "--db", str(tmp_path)]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    for mode in ([], ["--csv"], ["--json"]):
        found = subprocess.run([sys.executable, *program, *mode], env=env, capture_output=True, check=True)
        assert "日本" in found.stdout.decode()


def test_explain_says_who_chose_the_engine(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t")
    explain = ("sql", "EXPLAIN SELECT 1", "--db", tmp_path)
    assert "engine duckdb: the default" in done(*explain).out
    assert "engine duckdb: engine= of the call" in done(*explain, "--engine", "duckdb").out


def test_a_drop_asks_before(typed: Callable[[Iterable[str]], str]) -> None:
    typed(["DROP TABLE stock;", "n", "DROP TABLE stock;"])
    assert "stock" in typed(["\\dt"])
    typed(["DROP TABLE stock;", "y"])
    assert "stock" not in typed(["\\dt"])


def test_words_tables_and_columns_are_completed(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("stock").append([{"shelf": 1}])
    shell = Prompt(db, Format(), read=lambda _: "")
    assert [shell.complete("s", n) for n in range(9)][:2] == ["select", "set"]
    assert {"stock", "shelf"} <= {shell.complete("s", n) for n in range(12)}
    assert (shell.complete("STO", 0), shell.complete("zzz", 0)) == ("stock", None)
