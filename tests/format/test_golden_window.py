"""Tables with the feature `window`: every version reads them as they were, and goes on to keep them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from make_golden_inlined import read
from make_golden_window import GOLDEN, make

import firn
from firn.inspect.fsck.fsck import check
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.replay import checkpoint

EXPECTED = json.loads((GOLDEN / "expected.json").read_text("utf-8"))


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    shutil.copytree(GOLDEN / "db", tmp_path / "db")
    return firn.connect(tmp_path / "db")


def journal_of(table: firn.LakeTable) -> LeaderlessJournal:
    assert isinstance(table.journal, LeaderlessJournal)
    return table.journal


@pytest.mark.parametrize("name", EXPECTED)
def test_every_version_reads_as_it_did(db: firn.Database, name: str) -> None:
    table = db.table(name)
    assert isinstance(table, firn.LakeTable)
    for version, rows in EXPECTED[name]:
        assert read(table, version) == rows, version
    assert read(table) == EXPECTED[name][-1][1]
    assert journal_of(table).windowed
    assert not check(db, name).problems


@pytest.mark.parametrize("name", EXPECTED)
def test_a_view_builds_on_the_checkpoint(
    db: firn.Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = db.table(name)
    assert isinstance(table, firn.LakeTable)
    journal = journal_of(table)
    basis = checkpoint.read(journal.log_bucket, journal.layout).basis
    assert basis is not None
    for log in basis.logs:  # else they are listed
        if log < basis.start:
            db.bucket.delete(journal.layout.log_key(log))
    monkeypatch.setattr(journal.clock, "now_ms", lambda: basis.at_ms + 60_000)
    journal.view()  # learns that there is a window
    assert read(table) == EXPECTED[name][-1][1]


@pytest.mark.parametrize("name", EXPECTED)
def test_it_goes_on_to_be_kept(db: firn.Database, name: str) -> None:
    table = db.table(name)
    assert isinstance(table, firn.LakeTable)
    table.keep(once=True)
    assert table.snapshot().objects == table.snapshot().files
    table.sweep(older_than="0s")
    assert read(table) == EXPECTED[name][-1][1]
    assert not check(db, name).problems


def test_what_is_written_today_reads_the_same(tmp_path: Path) -> None:
    fresh = make(tmp_path / "db")
    assert {n: [rows for _, rows in told] for n, told in fresh.items()} == {
        n: [rows for _, rows in told] for n, told in EXPECTED.items()
    }
