"""`firn sql` with plain words, which are read without the parser of all commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cli_runs import run
from firn.cli.app import app
from firn.cli.sql.plain import FILES, FLAGS, LISTS, NUMBERS, TEXTS, plain_words


def test_the_options_are_those_of_the_command() -> None:
    command = typer.main.get_command(app).commands["sql"]  # type: ignore[attr-defined]
    options = {name: each for each in command.params for name in each.opts if name.startswith("-")}
    assert {*options} - {"--help", "-h"} == {*FLAGS, *TEXTS, *FILES, *NUMBERS, *LISTS}
    for name, parameter in {**TEXTS, **FILES, **NUMBERS, **LISTS}.items():
        assert options[name].name == parameter and options[name].multiple == (name in LISTS)
        assert not options[name].is_flag
    assert all(options[name].is_flag and options[name].name == name[2:] for name in FLAGS)


@pytest.mark.parametrize(
    "words",
    [
        "--help", "SELECT --nope 1", "SELECT more", "SELECT --limit x", "SELECT --limit", "-n5 SELECT",
        "SELECT --csv=1", "-- SELECT", "SELECT --db -x", "SELECT --limit -1",
    ],
)  # fmt: skip
def test_what_is_left_to_the_parser(words: str) -> None:
    assert plain_words([*words.split(), "--db", "d"]) is None


def test_a_database_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRN_DB", raising=False)
    assert plain_words(["SELECT"]) is None
    monkeypatch.setenv("FIRN_DB", "usual")
    assert plain_words(["SELECT"]) == {"query": "SELECT", "db": "usual"}


@pytest.mark.parametrize("text", ["SELECT 1 AS n, 'x' AS t", "SELECT 1; DELETE", "SELECT * FROM nowhere"])
@pytest.mark.parametrize("format", [[], ["--csv"], ["--json"]])
def test_answers_and_errors_are_the_parsers(text: str, format: list[str], tmp_path: Path) -> None:
    words = ["sql", text, "--db", str(tmp_path), *format]
    program = [sys.executable, "-c", "from firn.cli import main; main()", *words]
    plain = subprocess.run(program, capture_output=True, text=True, check=False)
    parsed = run(*words)
    assert (plain.returncode, plain.stdout, plain.stderr) == (parsed.code, parsed.out, parsed.err)
