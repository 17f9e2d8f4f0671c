"""`firn sql` with plain words, read without the parser of all commands: loading that takes longer than most answers.

Whatever is out of the ordinary, help and mistakes too, is left to the parser.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

FLAGS = frozenset(("--csv", "--json", "--fence", "--strict"))
TEXTS = {
    "--db": "db", "--engine": "engine", "--spill": "spill", "--in-process": "in_process", "--writer": "writer",
}  # fmt: skip
FILES = {"--file": "file", "-f": "file"}
NUMBERS = {"--limit": "limit", "-n": "limit"}
LISTS = {"--param": "param", "--allow-files": "allow_files", "--option": "options"}
"""The options of `command.sql`, with the parameters that they are for: by the kinds of their values."""


def answer(words: Sequence[str]) -> int | None:
    """Run `firn sql` with these words: the exit code. None for what the parser has to read, and nothing was done."""
    if (given := plain_words(words)) is None:
        return None
    from firn.cli.sql.work import run_sql
    from firn.cli.terminal.answering import ended, printing

    with printing():
        return ended(partial(run_sql, **given), json=bool(given.get("json"))) or 0


def plain_words(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `run_sql`; None for words that aren't plain.

    >>> plain_words(["SELECT 1", "--db=./prod", "--csv", "-n", "5"])
    {'query': 'SELECT 1', 'db': './prod', 'csv': True, 'limit': 5}
    >>> plain_words(["--help"]), plain_words(["SELECT 1", "--limit", "many", "--db", "./prod"])
    (None, None)
    """
    given: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if word in FLAGS:
            given[word[2:]] = True
            continue
        if not word.startswith("-"):
            if not word or "query" in given:
                return None
            given["query"] = word
            continue
        if not equals or not option.startswith("--"):
            option, value = word, next(left, "")
        if not value or value.startswith("-"):
            return None
        if option in TEXTS:
            given[TEXTS[option]] = value
        elif option in FILES:
            given[FILES[option]] = Path(value)
        elif option in NUMBERS and value.isascii() and value.isdecimal():
            given[NUMBERS[option]] = int(value)
        elif option in LISTS:
            given.setdefault(LISTS[option], []).append(value)
        else:
            return None
    if "db" not in given and (usual := os.environ.get("FIRN_DB")):
        given["db"] = usual
    return given if "db" in given else None
