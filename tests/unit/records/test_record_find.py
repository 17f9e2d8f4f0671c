"""Finding by several indices at once: by equality, prefix and range, values of all kinds, in an order, in pages."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import firn
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import InvalidInputError
from firn.records.apply.apply import settle
from firn.testing import SimStore

T = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
COLUMNS = {
    "name": "VARCHAR",
    "n": "BIGINT",
    "x": "DOUBLE",
    "on": "BOOLEAN",
    "at": "TIMESTAMP WITH TIME ZONE",
    "day": "DATE",
    "price": "DECIMAL(9,2)",
    "raw": "BLOB",
    "email": "VARCHAR",
    "note": "VARCHAR",
}
PLAIN = ("email", "note")  # one has a unique index, the other none
NAMES = ("Ada", "Alan", "Alonzo", "Bob", None, "Éva", "E\u0301va", "")
ROWS = {
    f"r{n}": {
        "name": name,
        "n": None if n == 3 else n - 2,
        "x": n / 2 - 1,
        "on": n % 2 == 0,
        "at": T + dt.timedelta(hours=n),
        "day": dt.date(2025, 12, 30) + dt.timedelta(days=n),
        "price": Decimal(n - 3) / 4,
        "raw": bytes([n]),
        "email": None if n > 5 else f"r{n}@example.com",
    }
    for n, name in enumerate(NAMES)
}


@pytest.fixture(params=["pending", "applied"])
def table(request):
    bucket = SimStore().bucket()
    tables = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    indices = [*(name for name in COLUMNS if name not in PLAIN), firn.Index("email", unique=True)]
    made = tables.create(tables.describe("t", RecordOptions(COLUMNS, indices)))
    with made.session.begin() as tx:
        for id, document in ROWS.items():
            tx.insert("t", id, document)
    if request.param == "applied":
        settle(made.session.store)
    return made


def ids(rows):
    return " ".join(row["_id"] for row in rows)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"name": "Éva"}, "r5 r6"),
        ({"name": "E\u0301va"}, "r5 r6"),
        ({"name": ""}, "r7"),
        ({"name": None}, "r4"),
        ({"name": firn.Prefix("Al")}, "r1 r2"),
        ({"name": firn.Prefix("")}, "r0 r1 r2 r3 r5 r6 r7"),
        ({"name": firn.Range("Alan", "Bob")}, "r1 r2"),
        ({"name": firn.Range("Alan", "Bob", closed=True)}, "r1 r2 r3"),
        ({"name": firn.Range("B")}, "r3 r5 r6"),
        ({"n": 0}, "r2"),
        ({"n": firn.Range(-1, 3)}, "r1 r2 r4"),
        ({"n": firn.Range(end=0)}, "r0 r1"),
        ({"n": None}, "r3"),
        ({"x": 0}, "r2"),
        ({"x": firn.Range(-0.5, 0.5, closed=True)}, "r1 r2 r3"),
        ({"on": True}, "r0 r2 r4 r6"),
        ({"at": T}, "r0"),
        ({"at": (T + dt.timedelta(hours=1)).astimezone(dt.timezone(dt.timedelta(hours=5)))}, "r1"),
        ({"at": firn.Range(T + dt.timedelta(hours=6))}, "r6 r7"),
        ({"day": firn.Range(dt.date(2026, 1, 1), dt.date(2026, 1, 3))}, "r2 r3"),
        ({"price": Decimal("-0.25")}, "r2"),
        ({"price": firn.Range(Decimal("-0.5"), Decimal("0.25"))}, "r1 r2 r3"),
        ({"raw": firn.Range(b"\x02", b"\x04")}, "r2 r3"),
        ({"on": True, "n": firn.Range(0)}, "r2 r4 r6"),
        ({"name": firn.Prefix("A"), "on": False, "x": firn.Range(end=0)}, "r1"),
        ({"on": True, "name": None, "day": dt.date(2026, 1, 3)}, "r4"),
        ({"on": True, "name": "Bob"}, ""),
    ],
)
def test_what_is_found(table, where, found):
    assert ids(table.find(where)) == found
    assert ids(table.scan(where)) == found
    assert table.count(where) == len(found.split())


@pytest.mark.parametrize("order_by", ["nam", "name down", ["n", "unknown desc"]])
def test_rows_cannot_be_ordered_by_what_no_column_is(table, order_by):
    with pytest.raises(InvalidInputError, match=r"t has no column '.*': name, n, "):
        table.find({"on": True}, order_by=order_by)
    with pytest.raises(InvalidInputError, match="t has no column"):
        table.scan(order_by=order_by)


@pytest.mark.parametrize("order_by", ["n", "n desc", ["on desc", "name"], ["on", "price desc"]])
def test_pages_of_what_several_indices_find(table, order_by):
    where = {"on": True, "x": firn.Range(-1, 3)}
    whole = [row["_id"] for row in table.find(where, order_by=order_by)]
    assert sorted(whole) == ["r0", "r2", "r4", "r6"]
    paged, last = [], None
    for size in (2, 2, 0):
        page = table.find(where, order_by=order_by, limit=2, after=last)
        assert len(page) == size
        paged += [row["_id"] for row in page]
        last = page[-1] if page else last
    assert paged == whole
    assert [row["_id"] for row in table.find(where, order_by=order_by, limit=3, after=whole[0])] == whole[1:]


def test_which_index_is_listed(table):
    """A unique one rather than another, an equality rather than a prefix or a range, else the first; any number of
    rows may have null in a unique one."""
    settle(table.session.store)
    counters = table.bucket.counters

    def gets(where):
        before = counters.get
        table.find(where)
        return counters.get - before - 1  # the end of the log

    assert gets({"on": True, "email": "r4@example.com"}) == 1
    assert gets({"x": firn.Range(-100), "on": True, "name": "Ada"}) == 4
    assert gets({"x": firn.Range(-100), "name": "Ada"}) == 1
    assert gets({"n": 4, "email": None}) == 1


def test_who_has_no_index_is_told_of_those_that_there_are(table):
    with pytest.raises(InvalidInputError, match=r"needs a field that is indexed \(at, day, email, n, name"):
        table.find(note="x")


def test_rows_as_arrow_keep_their_types(table):
    found = table.find(on=True).to_arrow()
    assert found.schema.field("day").type == pa.date32()
    assert found["price"].to_pylist() == [ROWS[id]["price"] for id in ("r0", "r2", "r4", "r6")]


def test_rows_that_only_match_since_are_not_read(table):
    settle(table.session.store)
    tx = table.session.begin()
    for id in ("r0", "r2", "r4"):
        table.update(id, {"name": "Bob", "n": 0})
    settle(table.session.store)
    before = table.bucket.counters.get
    assert ids(tx.find("t", name="Bob")) == "r3"
    assert table.bucket.counters.get == before + 1
