"""Parts `growth` and `find` of `bench.records`: many commits, and many index entries, in memory.

Commits and entries are put as the format has them, without going through transactions: what is measured is a process
that comes to them.
"""

from __future__ import annotations

import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.figures import FIRN, Figures, counted
from bench.record_engines import FIELD, SQLITE, connected, document, fill_sqlite
from firn.bucket import open_bucket
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.journal.sequence import Horizon, LogRecord, LogTransaction, RowWrite
from firn.journal.sequence.codec import canonical, encode_record
from firn.journal.sequence.truncation import truncate
from firn.records.objects.row import Row, Version, encode_row
from firn.records.write.transaction import begin

TABLE = "t"
ROWS = 10
"""Rows that the commits of a growing log change in turn, and that a find finds."""

SAMPLES = 300


class _Database:
    """A database in memory with one table, and processes of it."""

    def __init__(self) -> None:
        self.bucket = open_bucket("memory://")
        tables = self._tables()
        tables.create(tables.describe(TABLE, RecordOptions(indices=[FIELD])))
        self.store = self.process()
        self.layout = self.store.table(TABLE, self.store.log.refresh().catalog).layout

    def process(self) -> Any:
        """A view of the log that knows nothing yet."""
        return self._tables().session.store

    def commit(self, id: str) -> None:
        with begin(self.store) as tx:
            tx.upsert(TABLE, id, document(id))

    def put_row(self, id: str, seq: int, row: dict[str, Any], *, cut: int = 0) -> None:
        stem = self.layout.stem(FIELD, row[FIELD], id)
        version = Version(seq, canonical(row), entries=(stem,))
        self.bucket.put(self.layout.row(id), encode_row(Row(id, (version,), cut=cut)))

    def grow(self, upto: int) -> None:
        """Commits up to this number, applied."""
        head, log = self.store.log.refresh(), self.store.log.store
        ids = [f"r{n}" for n in range(ROWS)]
        writes = [
            RowWrite(TABLE, id, canonical(document(id)), entries=(self.layout.stem(FIELD, document(id)[FIELD], id),))
            for id in ids
        ]  # fmt: skip
        for number in range(head.number + 1, upto + 1):
            member = LogTransaction(secrets.token_hex(16), number - 1, (writes[number % ROWS],))
            record = LogRecord(number, (member,), number - 1, (), head.catalog)
            self.bucket.put(log.layout.record_key(number), encode_record(record))
        for number in range(max(head.number, upto - ROWS) + 1, upto + 1):
            id = ids[number % ROWS]
            self.put_row(id, number, document(id), cut=number)
            self.bucket.put(self.layout.entry_of_stem(writes[number % ROWS].entries[0], number), b"")
        log.raise_horizon(Horizon(applied=upto))
        self.store = self.process()

    def _tables(self) -> RecordTables:
        return RecordTables(self.bucket, "db", "memory://db", background=False)


def growth(figures: Figures, *, sizes: Sequence[int], samples: int = SAMPLES) -> None:
    """What it takes to begin and to read after so many commits, all of them in the log; and to open the database,
    before the log is truncated and after."""
    db = _Database()
    found: list[dict[str, float]] = []
    for before, size in zip([0, *sizes], sizes, strict=False):
        idle = db.process()
        begin(idle)
        db.grow(size)
        facts: dict[str, Any] = {}
        with counted(db.bucket, facts):
            seconds = _median(1, lambda _, idle=idle: begin(idle))
        figures.record(f"{size:,} commits: begin, idle since {before:,}", FIRN, seconds, **facts)
        store = _opened(figures, db, f"{size:,} commits: open", log_objects=size)
        at_size = {}
        for work, step in _steps(db, store):
            name = f"{size:,} commits: {work}"
            with counted(db.bucket, facts):
                seconds = step(samples)
            at_size[work] = seconds
            requests = round(facts["requests"] / samples, 2)
            figures.record(name, FIRN, seconds, us=round(seconds * 1e6, 1), requests_each=requests)
        found.append(at_size)
    for work, first in found[0].items():
        name = f"{work}: time after {sizes[-1]:,} commits over that after {sizes[0]:,}"
        figures.target(name, found[-1][work] / first, at_most=1.5)
    _truncated(figures, db, sizes[-1])


def _steps(db: _Database, store: Any) -> Iterator[tuple[str, Callable[[int], float]]]:
    ids = [f"r{n}" for n in range(ROWS)]

    def beginning(samples: int) -> float:
        return _median(samples, lambda _: begin(store))

    def reading(samples: int) -> float:
        return _median(samples, lambda n: begin(store).get(TABLE, ids[n % ROWS]))

    def finding(samples: int) -> float:
        cities = [document(id)[FIELD] for id in ids]
        return _median(samples, lambda n: begin(store).find(TABLE, {FIELD: cities[n % ROWS]}))

    yield "begin", beginning
    yield "begin and read", reading
    yield "begin and find one row", finding


def _opened(figures: Figures, db: _Database, name: str, **facts: Any) -> Any:
    """Come to the database with nothing known."""
    for _ in range(3):
        store = db.process()
        spent: dict[str, Any] = {}
        with counted(db.bucket, spent):
            began = time.perf_counter()
            begin(store)
            seconds = time.perf_counter() - began
        figures.record(name, FIRN, seconds, **facts, **spent)
    return store


def _truncated(figures: Figures, db: _Database, commits: int) -> None:
    """Nobody reads old snapshots here, so the horizon may be raised to the last one at once."""
    log = db.process().log
    number = log.refresh().number
    log.store.raise_horizon(Horizon(horizon=number - 1, applied=number))
    facts: dict[str, Any] = {}
    with counted(db.bucket, facts):
        began = time.perf_counter()
        done = truncate(log)
        seconds = time.perf_counter() - began
    figures.record(f"truncate {commits:,} commits", FIRN, seconds, records=done.deleted, **facts)
    _opened(figures, db, f"{commits:,} commits, truncated: open", log_objects=number - done.lo)


# -- many entries


def find(figures: Figures, *, entries: int, peers: bool, samples: int = SAMPLES) -> None:
    """Find ten rows by a field that each value has ten rows of. Those rows alone have objects that are looked for: a
    find reads no others, and knows of them only by what is listed."""
    name = f"find {ROWS} of {entries:,}"
    values = max(1, entries // ROWS)
    looked_for = [n * values // samples for n in range(samples)]
    db = _Database()
    db.grow(2)
    wanted = set(looked_for)
    for number in range(values * ROWS):
        id, value = f"row{number}", number % values
        row = {**document(id), FIELD: f"city {value}"}
        db.bucket.put(db.layout.entry(FIELD, row[FIELD], id, 2), b"")
        if value in wanted:
            db.put_row(id, 2, row)
    tx = begin(db.process())
    facts: dict[str, Any] = {}

    def found(number: int) -> None:
        rows = tx.find(TABLE, {FIELD: f"city {looked_for[number]}"})
        assert len(rows) == ROWS, len(rows)

    found(0)
    with counted(db.bucket, facts):
        seconds = _median(samples, found)
    each = round(facts["requests"] / samples, 2)
    figures.record(name, FIRN, seconds, us=round(seconds * 1e6, 1), requests_each=each)
    figures.target(f"{name}: requests", each, at_most=1 + ROWS)
    if peers:
        _find_in_sqlite(figures, name, values, looked_for)


def _find_in_sqlite(figures: Figures, name: str, values: int, looked_for: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as root:
        connection = connected(Path(root, "find.sqlite"))
        try:
            rows = (
                (f"row{n}", {**document(f"row{n}"), FIELD: f"city {n % values}"})
                for n in range(values * ROWS)
            )
            fill_sqlite(connection, rows)

            def found(number: int) -> None:
                query = f"SELECT document FROM {TABLE} WHERE {FIELD} = ?"
                rows = connection.execute(query, (f"city {looked_for[number]}",)).fetchall()
                assert len([json.loads(row[0]) for row in rows]) == ROWS

            seconds = _median(len(looked_for), found)
            figures.record(name, SQLITE, seconds, us=round(seconds * 1e6, 1))
        finally:
            connection.close()


def _median(samples: int, step: Callable[[int], Any]) -> float:
    seconds = []
    for number in range(samples):
        began = time.perf_counter()
        step(number)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
