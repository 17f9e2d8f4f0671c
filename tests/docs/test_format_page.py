"""The bytes on the page of the format are those that the code writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from firn.journal.leaderless.codec import decode
from firn.journal.leaderless.fold import fold

ROOT = Path(__file__).parents[2]


def load_script():
    path = ROOT / "scripts/write_format_examples.py"
    spec = importlib.util.spec_from_file_location("write_format_examples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()
SHOWN = {
    found[2]: found[3].removesuffix("\n") for found in SCRIPT.BLOCK.finditer(SCRIPT.PAGE.read_text("utf-8"))
}
WRITTEN = SCRIPT.examples()


def test_every_example_is_shown():
    assert SHOWN.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_shown_is_what_is_written(name):
    assert SHOWN[name] == WRITTEN[name], "the format changed, or the page: `make docs` writes it anew"


def test_the_examples_are_one_life():
    """The logs on the page, applied by hand."""
    keys = SHOWN["keys"].splitlines()
    claim = json.loads(SHOWN["claim"])
    append = decode("1767258000753_web-7-0.jsonl", SHOWN["append"].encode(), where="append")
    batch = decode(claim["log"], SHOWN["batch-append"].encode(), where="batch-append")
    intent = json.loads(SHOWN["lock-intent"])["intent"]
    merge = decode(intent.rpartition("/")[2], SHOWN["merge"].encode(), where="merge")
    reservation = decode(merge.name, SHOWN["reservation"].encode(), where="reservation")
    cleaned = decode(merge.name, SHOWN["cleaned"].encode(), where="cleaned")

    assert reservation.is_reservation
    assert fold([append, batch]).snapshot().files == (*append.files, *batch.files)
    live = fold([append, batch, merge]).live
    assert {f.path for f in live} == {key for key in keys if "/_data/" in key}
    assert {f.path for f in fold([cleaned]).live} == {f.path for f in live}
    assert sum(f.rows or 0 for f in live) == sum(f.rows or 0 for f in (*append.files, *batch.files))
