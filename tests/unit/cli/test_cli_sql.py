"""`firn sql`: scripts, parameters, and the interactive shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pytest

import firn
from cli_runs import done, run
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


def test_a_drop_asks_before(typed: Callable[[Iterable[str]], str]) -> None:
    typed(["DROP TABLE stock;", "n", "DROP TABLE stock;"])
    assert "stock" in typed(["\\dt"])
    typed(["DROP TABLE stock;", "y"])
    assert "stock" not in typed(["\\dt"])


def test_words_tables_and_columns_are_completed(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("stock").append([{"shelf": 1}])
    prompt = Prompt(db, Format(), read=lambda _: "")
    assert [prompt.complete("s", n) for n in range(9)][:2] == ["select", "set"]
    assert {"stock", "shelf"} <= {prompt.complete("s", n) for n in range(12)}
    assert (prompt.complete("STO", 0), prompt.complete("zzz", 0)) == ("stock", None)
