"""Hermitage's cases by name, on record tables: what snapshot isolation prevents, and what only serializable does.

Hermitage (github.com/ept/hermitage) is a set of schedules, each of which shows one anomaly if a database lets it.
They are written for SQL with locks; where a statement would block there, a commit fails here. Rows are read by id,
through an index, or by a scan, and as they are in the log or in the rows.
"""

from __future__ import annotations

import pytest

from firn.errors import NoSuchKeyError, StaleObjectError
from firn.records.documents.predicates import Range
from firn.testing.history import RecordedHistory
from record_stores import Database

BOTH = pytest.mark.parametrize("serializable", [False, True], ids=["snapshot", "serializable"])


@pytest.fixture(params=["id", "index", "scan"])
def by(request):
    return request.param


@pytest.fixture(params=["pending", "applied"])
def db(request, by):
    return Hermitage(by, applied=request.param == "applied")


class Hermitage:
    """The table `test` of Hermitage: rows 1 and 2 with the values 10 and 20."""

    def __init__(self, by, *, applied):
        self.by, self.applied = by, applied
        self.db = Database()
        with self.begin() as tx:
            tx.insert("1", 10)
            tx.insert("2", 20)
        self.number = 0

    def begin(self, *, serializable=False):
        return Client(self, self.db.begin("client", serializable=serializable))

    @property
    def rows(self):
        return self.begin().select()


class Client:
    """A transaction in Hermitage's words."""

    def __init__(self, hermitage, tx):
        self.hermitage, self.tx = hermitage, tx

    def insert(self, id, value):
        self.tx.insert("t", id, {"n": value})

    def update(self, id, value):
        self.tx.update("t", id, {"n": value})

    def delete_where(self, value):
        for id in self.where(value):
            self.tx.delete("t", id)

    def select(self, *ids):
        """The values of these rows, or of all."""
        if self.hermitage.by == "id":
            found = {}
            for id in ids or ("1", "2", "3", "4"):
                try:
                    found[id] = self.tx.get("t", id)["n"]
                except NoSuchKeyError:
                    continue
            return found
        rows = self.tx.find("t", n=Range(0)) if self.hermitage.by == "index" else self.tx.scan("t")
        return {row["_id"]: row["n"] for row in rows if not ids or row["_id"] in ids}

    def where(self, *values):
        """The rows that have one of these values."""
        if self.hermitage.by == "id":
            return {id: value for id, value in self.select().items() if value in values}
        look = self.tx.find if self.hermitage.by == "index" else self.tx.scan
        return {row["_id"]: row["n"] for value in values for row in look("t", n=value)}

    def commit(self):
        self.tx.commit()
        if self.hermitage.applied:
            self.hermitage.db.apply()

    def abort(self):
        self.tx.rollback()

    def fails(self):
        with pytest.raises(StaleObjectError):
            self.tx.commit()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.commit()


DIVISIBLE_BY_3 = (30, 42, 12, 18)


@BOTH
def test_g0_write_cycles(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    t1.update("1", 11)
    t2.update("1", 12)
    t1.update("2", 21)
    t1.commit()
    assert db.rows == {"1": 11, "2": 21}
    t2.update("2", 22)
    t2.fails()
    assert db.rows == {"1": 11, "2": 21}


@BOTH
def test_g1a_aborted_reads(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    t1.update("1", 101)
    assert t2.select() == {"1": 10, "2": 20}
    t1.abort()
    assert t2.select() == db.rows == {"1": 10, "2": 20}
    t2.commit()


@BOTH
def test_g1b_intermediate_reads(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    t1.update("1", 101)
    assert t2.select() == {"1": 10, "2": 20}
    t1.update("1", 11)
    t1.commit()
    assert t2.select() == {"1": 10, "2": 20}
    t2.commit()
    assert db.rows == {"1": 11, "2": 20}


def test_g1c_circular_information_flow(db):
    t1, t2 = db.begin(), db.begin()
    t1.update("1", 11)
    t2.update("2", 22)
    assert t1.select("2") == {"2": 20}
    assert t2.select("1") == {"1": 10}
    t1.commit()
    t2.commit()
    assert db.rows == {"1": 11, "2": 22}


def test_g1c_serializable(db):
    """Neither saw the other, so one had to be first, and the other had to see it."""
    t1, t2 = db.begin(serializable=True), db.begin(serializable=True)
    t1.update("1", 11)
    t2.update("2", 22)
    assert t1.select("2") == {"2": 20}
    assert t2.select("1") == {"1": 10}
    t1.commit()
    t2.fails()


@BOTH
def test_otv_observed_transaction_vanishes(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    t1.update("1", 11)
    t1.update("2", 19)
    t2.update("1", 12)
    t1.commit()
    t3 = db.begin(serializable=serializable)
    assert t3.select("1") == {"1": 11}
    t2.update("2", 18)
    assert t3.select("2") == {"2": 19}
    t2.fails()
    assert t3.select() == {"1": 11, "2": 19}


@BOTH
def test_otv_when_the_second_one_commits(db, serializable):
    with db.begin() as t1:
        t1.update("1", 11)
        t1.update("2", 19)
    t2, t3 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    t2.update("1", 12)
    assert t3.select("1") == {"1": 11}
    t2.update("2", 18)
    t2.commit()
    assert t3.select("2") == {"2": 19}
    assert t3.select("1") == {"1": 11}
    t3.commit()


@BOTH
def test_pmp_predicate_many_preceders(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.where(30) == {}
    t2.insert("3", 30)
    t2.commit()
    assert t1.where(*DIVISIBLE_BY_3) == {}
    t1.commit()


@BOTH
def test_pmp_for_write_predicates(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    for id, value in t1.select().items():
        t1.update(id, value + 10)
    t2.delete_where(20)
    t1.commit()
    assert t2.where(20) == {}
    t2.fails()
    assert db.rows == {"1": 20, "2": 30}


@BOTH
def test_p4_lost_update(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.select("1") == t2.select("1") == {"1": 10}
    t1.update("1", 11)
    t2.update("1", 11)
    t1.commit()
    t2.fails()


@BOTH
def test_g_single_read_skew(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.select("1") == {"1": 10}
    assert t2.select("1", "2") == {"1": 10, "2": 20}
    t2.update("1", 12)
    t2.update("2", 18)
    t2.commit()
    assert t1.select("2") == {"2": 20}
    t1.commit()


@BOTH
def test_g_single_with_predicates(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.where(10, 20) == {"1": 10, "2": 20}
    for id in t2.where(10):
        t2.update(id, 12)
    t2.commit()
    assert t1.where(*DIVISIBLE_BY_3) == {}
    assert t1.where(10, 20) == {"1": 10, "2": 20}
    t1.commit()


@BOTH
def test_g_single_with_a_write_predicate(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.select("1") == {"1": 10}
    assert t2.select() == {"1": 10, "2": 20}
    t2.update("1", 12)
    t2.update("2", 18)
    t2.commit()
    t1.delete_where(20)
    t1.fails()
    assert db.rows == {"1": 12, "2": 18}


@BOTH
def test_g2_item_write_skew(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.select("1", "2") == t2.select("1", "2") == {"1": 10, "2": 20}
    t1.update("1", 11)
    t2.update("2", 21)
    t1.commit()
    if serializable:
        t2.fails()
    else:
        t2.commit()
    assert db.rows == {"1": 11, "2": 20 if serializable else 21}


@BOTH
def test_g2_anti_dependency_cycles(db, serializable):
    t1, t2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    assert t1.where(*DIVISIBLE_BY_3) == t2.where(*DIVISIBLE_BY_3) == {}
    t1.insert("3", 30)
    t2.insert("4", 42)
    t1.commit()
    if serializable:
        t2.fails()
    else:
        t2.commit()
    assert db.begin().where(*DIVISIBLE_BY_3) == ({"3": 30} if serializable else {"3": 30, "4": 42})


@BOTH
def test_g2_two_edges_feketes_read_only_anomaly(db, serializable):
    t1 = db.begin(serializable=serializable)
    assert t1.select() == {"1": 10, "2": 20}
    with db.begin(serializable=serializable) as t2:
        t2.update("2", t2.select("2")["2"] + 5)
    t3 = db.begin(serializable=serializable)
    assert t3.select() == {"1": 10, "2": 25}
    t3.commit()
    t1.update("1", 0)
    if serializable:
        t1.fails()
    else:
        t1.commit()
    assert db.rows == {"1": 10 if serializable else 0, "2": 25}


@BOTH
def test_long_fork(db, serializable):
    """Two that write apart from each other are seen in one order by all."""
    w1, w2 = db.begin(serializable=serializable), db.begin(serializable=serializable)
    w1.update("1", 11)
    w2.update("2", 22)
    r0 = db.begin(serializable=serializable)
    w1.commit()
    r1 = db.begin(serializable=serializable)
    w2.commit()
    r2 = db.begin(serializable=serializable)
    assert r2.select() == {"1": 11, "2": 22}
    assert r1.select() == {"1": 11, "2": 20}
    assert r0.select() == {"1": 10, "2": 20}


@BOTH
def test_what_is_committed_is_seen_by_all_who_begin_then(db, serializable):
    """Real time, over processes that know nothing of each other."""
    for value in range(11, 15):
        with db.begin(serializable=serializable) as writer:
            writer.update("1", value)
        assert db.begin(serializable=serializable).select("1") == {"1": value}


def test_the_checker_agrees(db):
    """The write skew above, recorded: the checker lets it pass as a snapshot and refuses it as serializable."""
    history = RecordedHistory()
    t1, t2 = db.begin(), db.begin()
    with history.begin("t1") as one, history.begin("t2") as other:
        for t, mine, recording in ((t1, "1", one), (t2, "2", other)):
            for id in t.select("1", "2"):
                recording.read(id, [])
            t.update(mine, 99)
            recording.append(mine, 99)
        t1.commit()
        t2.commit()
    with history.begin("last") as last:
        for id, value in db.rows.items():
            last.read(id, [value])
    assert history.check()
    assert [anomaly.kind for anomaly in history.check("serializable").anomalies] == ["G2"]
