"""The page on commits and reads: each function that it names is called, in its order."""

from __future__ import annotations

import random
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import firn

SOURCE = Path(firn.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "commits.md"


def steps(section: str) -> list[tuple[str, str]]:
    """(module, function) of each numbered step below a heading that begins so."""
    text = PAGE.read_text("utf-8")
    (found,) = re.findall(rf"^## {section}.*?$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    numbered = re.findall(r"^\d+\. `([\w.]+)` \(`([\w/]+\.py)`\)", found, re.MULTILINE)
    assert len(numbered) == len(re.findall(r"^\d+\. ", found, re.MULTILINE))
    return [(module, name) for name, module in numbered]


def called_by(commit: Callable[[], Any]) -> list[tuple[str, str]]:
    """What is called in all threads while it runs, in order."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            owner = frame.f_locals.get("self")
            names = [c.__name__ for c in type(owner).__mro__] if owner is not None else []
            module, name = path[len(str(SOURCE)) + 1 :], frame.f_code.co_name
            calls.extend([(module, name), *((module, f"{c}.{name}") for c in names)])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        commit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def appended(journal: str) -> None:
    db = firn.connect("memory://", writer="here" if journal == "writer" else None)
    db.create_table("flights", journal=journal).append([{"delay": 66}])


def queried() -> None:
    db = firn.connect("memory://")
    db.create_table("flights").append([{"delay": 66}])
    assert db.sql("SELECT delay FROM flights WHERE delay > 60").to_arrow().num_rows == 1


def put() -> None:
    with firn.connect("memory://").create_table("flights", kind="keyed").open() as kv:
        kv.put(b"DTW", b"66")


def got() -> None:
    table = firn.connect("memory://read-by-key").create_table("flights", kind="keyed")
    with table.open() as kv:
        for n in range(400):  # more than is fetched whole
            kv.put(b"%d" % n, random.Random(n).randbytes(1000), durable=False)
        kv.flush()
    table.compact()
    other = firn.connect("memory://read-by-key")  # which has nothing in its cache
    with other.table("flights", kind="keyed").reader() as kv:
        assert kv.get(b"66") == random.Random(66).randbytes(1000)


def transacted() -> None:
    db = firn.connect("memory://")
    flights = db.create_table("flights", kind="records")
    with db.begin() as tx:
        tx.insert("flights", "DTW", {"delay": 66})
    flights.session._close_at_exit()  # waits for what is applied in the background


@pytest.mark.parametrize(
    ("section", "commit"),
    [
        ("The leaderless log", lambda: appended("leaderless")),
        ("A writer's catalog", lambda: appended("writer")),
        ("The manifest", put),
        ("The sequence", transacted),
        ("A key", got),
        ("A query", queried),
    ],
)
def test_a_commit_goes_as_the_page_says(section: str, commit: Callable[[], None]) -> None:
    calls = iter(called_by(commit))
    for step in steps(section):
        assert step in calls, f"{step} isn't called after the step before it"
