"""The paper's matrices: a change and how it ends, seen by its own transaction, by one that began
before, by one that began after, and by another writer; by id and by index; with locks and without.

Each cell is run while the commits that it builds on are only in the log, and when they are in the rows.
"""

from __future__ import annotations

import pytest

from cells import every_cell
from firn.errors import (
    DuplicateKeyError,
    NoSuchKeyError,
    ObjectLockedError,
    StaleObjectError,
    TransactionClosedError,
)
from record_stores import Database

OLD, NEW, THEIRS = {"n": 1}, {"n": 2}, {"n": 3}
VERBS = ("insert", "update", "delete")
BEFORE = {"insert": None, "update": OLD, "delete": OLD}
AFTER = {"insert": NEW, "update": NEW, "delete": None}
ENDS = ("commit", "rollback")
OUTCOME = {(verb, end): (AFTER if end == "commit" else BEFORE)[verb] for verb in VERBS for end in ENDS}


class Cell:
    """One transaction that changes the row, and all others around it."""

    def __init__(self, verb, end, by, lock, applied, twins):
        self.verb, self.end, self.by, self.lock = verb, end, by, lock
        self.applied = applied
        self.db = Database(twins=twins)
        self.db.put(other={"n": 1}, **({} if BEFORE[verb] is None else {"a": BEFORE[verb]}))
        self.settle()
        self.tx = None

    def settle(self):
        if self.applied:
            self.db.apply()

    def begin(self, who):
        return self.db.begin(who, lock=self.lock)

    def change(self):
        self.tx = self.begin("own")
        self.act(self.tx, NEW)

    def act(self, tx, document):
        """Look at the row as this cell does, and change it as this cell does."""
        self.row(tx)
        if self.verb == "insert":
            tx.insert("t", "a", document)
        elif self.verb == "update":
            tx.update("t", "a", document)
        else:
            tx.delete("t", "a")

    def finish(self):
        getattr(self.tx, self.end)()
        self.settle()

    def row(self, tx):
        """The row's document, or None, and that nothing else is found in its place."""
        if self.by == "id":
            try:
                return tx.get("t", "a").document
            except NoSuchKeyError:
                return None
        found = []
        for n in (1, 2, 3):
            rows = tx.find("t", n=n) if self.by == "index" else tx.scan("t", n=n)
            assert all(row["n"] == n for row in rows)
            found += [row.document for row in rows if row["_id"] == "a"]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def before(self):
        return BEFORE[self.verb]

    @property
    def outcome(self):
        return OUTCOME[self.verb, self.end]


each = every_cell(
    Cell, verb=VERBS, end=ENDS, by=["id", "index", "scan"], lock=[False, True], applied=[False, True]
)


@each
def test_own_transaction(cell):
    """It sees what it did as soon as it did it, and nothing more after its end."""
    cell.change()
    assert cell.row(cell.tx) == AFTER[cell.verb]
    cell.finish()
    with pytest.raises(TransactionClosedError):
        cell.row(cell.tx)


@each
def test_one_begun_before(cell):
    """It sees the old row, only by the old value, whatever happens."""
    early, unread = cell.begin("early"), cell.begin("unread")
    assert cell.row(early) == cell.before
    cell.change()
    assert cell.row(early) == cell.before
    cell.finish()
    assert cell.row(early) == cell.row(unread) == cell.before
    early.commit()


@each
def test_one_begun_meanwhile(cell):
    """It sees what one begun before does."""
    cell.change()
    meanwhile = cell.begin("meanwhile")
    assert cell.row(meanwhile) == cell.before
    cell.finish()
    assert cell.row(meanwhile) == cell.before


@each
def test_one_begun_after(cell):
    """It sees the outcome, only by the new value."""
    cell.change()
    cell.finish()
    assert cell.row(cell.begin("late")) == cell.outcome


@each
def test_another_writer_acts_before_the_end(cell):
    """The first that commits wins. With locks, the second one is told at once."""
    cell.change()
    rival = cell.begin("rival")
    if cell.lock:
        with pytest.raises(ObjectLockedError):
            cell.act(rival, THEIRS)
        cell.finish()
        return
    cell.act(rival, THEIRS)
    cell.finish()
    if cell.end == "rollback":
        rival.commit()
        expected = None if cell.verb == "delete" else THEIRS
    else:
        with pytest.raises(StaleObjectError) as failure:
            rival.commit()
        assert (failure.value.current and failure.value.current.document) == cell.outcome
        expected = cell.outcome
    cell.settle()
    assert cell.row(cell.begin("late")) == expected


@each
def test_another_writer_that_was_there_acts_after_the_end(cell):
    """It can't change what it doesn't see as it is now."""
    rival = cell.begin("rival")
    cell.change()
    cell.finish()
    if cell.end == "rollback":
        cell.act(rival, THEIRS)
        rival.commit()
        cell.settle()
        assert cell.row(cell.begin("late")) == (None if cell.verb == "delete" else THEIRS)
        return
    with pytest.raises(DuplicateKeyError if cell.verb == "insert" else StaleObjectError) as failure:
        cell.act(rival, THEIRS)
        rival.commit()
    if cell.verb != "insert":
        assert (failure.value.current and failure.value.current.document) == cell.outcome
    assert cell.row(cell.begin("late")) == cell.outcome


@each
def test_another_writer_begins_after_the_end(cell):
    """It goes on from the outcome."""
    cell.change()
    cell.finish()
    rival = cell.begin("rival")
    if cell.end == "commit" and cell.verb != "update":
        with pytest.raises(DuplicateKeyError if cell.verb == "insert" else NoSuchKeyError):
            cell.act(rival, THEIRS)
        return
    cell.act(rival, THEIRS)
    rival.commit()
    cell.settle()
    assert cell.row(cell.begin("late")) == (None if cell.verb == "delete" else THEIRS)
