"""A commit copied the whole state of its writer, and each append of a transaction all that it had done so far."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import uuid4

import pytest

import firn
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Add, CatalogTransaction, CommitRecord
from firn.journal.writer.format.layered import FEWEST, Layered
from firn.journal.writer.format.state import CatalogHead, CatalogState, CatalogTable, LiveFile, follow


def test_versions_of_a_mapping_are_what_dicts_would_be() -> None:
    rng = random.Random(10)
    versions: list[tuple[Layered[int, int], dict[int, int]]] = [(Layered({n: n for n in range(50)}), {})]
    versions[0] = versions[0][0], dict(versions[0][0])
    for _ in range(600):
        before, truth = versions[-1]
        now, wanted = Layered.after(before), dict(truth)
        for _ in range(rng.randrange(4)):
            key = rng.randrange(90)
            if key in wanted and rng.random() < 0.5:
                del now[key], wanted[key]
            else:
                now[key] = wanted[key] = rng.random()  # type: ignore[assignment]
        versions.append((now, wanted))
    for now, wanted in versions:
        assert list(now.items()) == list(wanted.items()) and len(now) == len(wanted)
        assert now == wanted and wanted == now and all((key in now) == (key in wanted) for key in range(90))
    with pytest.raises(KeyError):
        del Layered({1: 1})[2]


class Counted(dict[str, LiveFile]):
    """Counts who goes through all of it."""

    walks = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().__iter__()

    def keys(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().keys()


def test_a_commit_looks_at_no_more_files_than_it_changes() -> None:
    files = Counted({f"{n}": LiveFile(DataFile(f"{n}", 1, 0), (), 1) for n in range(1000)})
    state = CatalogState("w", "db", CatalogHead(1, "0" * 32), 1, {"t": CatalogTable("t", b"", ((),), files)})
    for number in range(FEWEST):
        record = CommitRecord(f"{number + 1:032x}", state.head.uuid, 0, "append")
        add = Add("t", DataFile(f"new {number}", 1, 0))
        state = follow(state, CatalogTransaction("w", "db", state.head.revision + 1, [add], record))
    assert files.walks == 0
    assert len(state.tables["t"].files) == 1000 + FEWEST


def test_an_append_in_a_transaction_replays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.journal.writer.format import state as states

    acted: list[object] = []
    act = states._Work.act
    monkeypatch.setattr(states._Work, "act", lambda self, a, r: (acted.append(a), act(self, a, r))[1])
    db = firn.connect("memory://", writer="w")
    db.create_table("t", journal="writer")
    acted.clear()
    with db.writer_transaction() as tx:
        for number in range(20):
            tx.append("t", [{"id": number}])
        assert sum(isinstance(action, Add) for action in acted) == 20
    assert db.table("t").scan().count() == 20


def test_a_commit_to_a_table_with_a_key_looks_at_no_live_files() -> None:
    """Its rows' clock is above all that are there: the state knows the greatest."""
    db = firn.connect(f"memory://{uuid4().hex}", writer="w")
    t = db.create_table("t", journal="writer", key=["k"], schema={"k": "BIGINT"})
    for k in range(3):
        t.append([{"k": k}])
    own = db._writer_tables.own
    assert own.state.tables["t"].greatest == 4
    t.checkpoint()
    again = firn.connect(db.url, writer="w")
    read = again._writer_tables.own.state.tables["t"]
    assert (read, read.greatest) == (own.state.tables["t"], 4)
    handle = own._opened()
    table = handle._state.tables["t"]
    watched = Counted(table.files)
    handle._state = replace(handle._state, tables={"t": replace(table, files=Layered(watched))})
    t.append([{"k": 9}])
    assert watched.walks == 0 and own.state.tables["t"].greatest == 5
