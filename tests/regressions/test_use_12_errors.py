"""Errors that showed Firn's own SQL, a class of the parser, letters for columns, or none of Firn's at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import firn
from firn.errors import InvalidInputError, UnsupportedError


@pytest.fixture
def t() -> Any:
    table = firn.connect("memory://").create_table("t")
    table.append([{"delay": 5, "name": "x"}])
    return table


@pytest.mark.parametrize(
    ("call", "said", "unsaid"),
    [
        (
            lambda t: t.scan(where="delay > 'x'").to_arrow(),
            r"\"delay > 'x'\" doesn't fit.*Could not",
            "LINE|parquet",
        ),
        (lambda t: t.delete("delay > 'x'"), r"\"delay > 'x'\" doesn't fit", "LINE|parquet"),
        (lambda t: t.scan(where="name::INT > 3").to_arrow(), "Could not convert", "LINE|\n"),
        (
            lambda t: t.scan(where="delay >").to_arrow(),
            r"'delay >'.*something is missing \(line 1",
            "sqlglot",
        ),
        (lambda t: t.scan(where="SELECT 1").to_arrow(), r"Unexpected token \(line 1", "Invalid expression"),
        (lambda t: t.scan(columns="delay"), "columns is 'delay'; it must be a list", "no column"),
        (lambda t: t.scan(columns=5), "columns is 5; it must be a list", "iterable"),
        (lambda t: t.scan(where=5).to_arrow(), "where is 5; it must be a text", "len"),
        (lambda t: t.delete(None), "where is None; it must be a text", "len"),
        (lambda t: t.delete(""), "the predicate is empty; write one", "leave it out"),
        (lambda t: t.scan(limit="x"), "limit is 'x'; it must be a whole number", "not supported"),
        (lambda t: firn.connect(5), "5 is not a URL; name a directory", "expected str"),
        (
            lambda t: firn.connect("memory://").create_table("y", schema={"a": "FOO"}),
            r"column 'a': FOO isn't a type.*VARCHAR, BIGINT",
            "query",
        ),
    ],
)
def test_of_lake_tables(t: Any, call: Callable[[Any], object], said: str, unsaid: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        call(t)
    assert not re.search(unsaid, str(caught.value))


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
@pytest.mark.parametrize("given", ["x", ["x"], 5])
def test_of_record_tables(isolation: Any, given: Any) -> None:
    table = firn.connect("memory://").create_table("r", kind="records", isolation=isolation)
    verbs = [table.scan, table.count, *([table.find] if isolation == "snapshot" else [])]
    for verb in verbs:
        with pytest.raises(InvalidInputError, match=r"where is .*; it must be a dict by name"):
            verb(given)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_extra_is_named(t: Any, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.lake.read.scan.find_spec", lambda name: None)
    with pytest.raises(
        UnsupportedError, match=rf"{library} isn't installed: pip install 'firn\[{library}\]'"
    ):
        getattr(t.scan(), f"to_{library}")()


def test_help_of_keyed_verbs_says_what_they_do() -> None:
    for verb in ("changes", "checkpoint", "checkpoints", "clone", "compact", "load", "sweep"):
        text = getattr(firn.KeyedTable, verb).__doc__
        assert "See `firn" not in text, verb
        assert "GET" in text or "Cost" in text, verb
