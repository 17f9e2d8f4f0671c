"""After a race that a commit lost to the end, no verb but append worked on that connection any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import firn
from firn.errors import HandleClosedError
from firn.journal.writer.attempts import ATTEMPTS
from firn.journal.writer.commit.commit import Handle
from firn.lake.table import LakeTable

VERBS: dict[str, Callable[[firn.Database, LakeTable], object]] = {
    "scan": lambda db, t: t.scan().count(),
    "snapshot": lambda db, t: t.snapshot(),
    "merge": lambda db, t: t.merge(),
    "delete": lambda db, t: t.delete("id = 1"),
    "overwrite": lambda db, t: t.overwrite([{"id": 7}]),
    "transaction": lambda db, t: db.writer_transaction().table("t"),
    "columns": lambda db, t: t.journal.known().columns,
    "sweep": lambda db, t: t.sweep(),
    "create": lambda db, t: db.create_table("u", journal="writer"),
    "drop": lambda db, t: db.drop_table("t"),
    "prune": lambda db, t: db.prune("0s"),
    "append": lambda db, t: t.append([{"id": 8}]),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("claims", [True, False])
def test_a_connection_goes_on_after_a_lost_race(
    verb: str, claims: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {} if claims else {"conditional_put": "disabled"}
    db = firn.connect(f"memory://race-{verb}-{claims}/db", writer="a", options=options)
    table = db.create_table("t", journal="writer")
    table.append([{"id": 1}])
    other = firn.connect(db.url, writer="a", options=options).table("t")
    commit, lost = Handle.commit, []

    def overtaken(self: Handle, *args: object, **more: object) -> object:
        if len(lost) < ATTEMPTS and self.history is db._writer_tables.own.history:
            lost.append(self)
            monkeypatch.setattr(Handle, "commit", commit)
            other.append([{"id": len(lost) + 1}])
            monkeypatch.setattr(Handle, "commit", overtaken)
        return commit(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Handle, "commit", overtaken)
    with pytest.raises(HandleClosedError):
        table.append([{"id": 0}])
    assert len(lost) == ATTEMPTS
    VERBS[verb](db, table)
    if verb == "drop":
        table = db.create_table("t", journal="writer")
    table.append([{"id": 9}])
    assert 9 in table.scan().to_arrow()["id"].to_pylist()
