"""What `bench.records` drives: record tables as programs of several threads use them, and SQLite for orientation."""

from __future__ import annotations

import gc
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench.record_places import Place
from firn.errors import ConflictError
from firn.records.apply.apply import settle

TABLE, FIELD = "t", "city"
APART, SQLITE = "firn, a Database each", "SQLite"
"""Beside `figures.FIRN`, whose clients share a `Database` and so a commit."""


class Client(Protocol):
    """One thread's way to the rows."""

    def change(self, id: str) -> int:
        """Read a row, add one to its `n`, commit; again after a conflict. How often it was tried; 0 for given up."""

    def read(self, id: str) -> int:
        """Begin, and read a row: 1."""


class Work(Protocol):
    """Clients of one database, and how to count what they have done."""

    clients: Sequence[Client]

    def total(self) -> int:
        """The sum of all rows' `n`."""

    def spent(self) -> dict[str, int]:
        """Requests until now, by verb, of all clients together; empty where nobody counts."""


def document(id: str) -> dict[str, Any]:
    return {"n": 0, FIELD: f"city of {id}", "text": "x" * 100}


# -- Firn


class FirnClient:
    def __init__(self, db: Any) -> None:
        self.db = db

    def change(self, id: str) -> int:
        attempts = 0

        def more(tx: Any) -> None:
            nonlocal attempts
            attempts += 1
            row = tx.get(TABLE, id)
            tx.update(TABLE, id, {**row, "n": row["n"] + 1})

        try:
            self.db.transact(more)
        except ConflictError:
            return 0
        return attempts

    def read(self, id: str) -> int:
        self.db.begin().get(TABLE, id)
        return 1


class FirnWork:
    """`clients` threads on a database of its own. Apart, each has what a process of its own would have; shared, they
    have one `Database`, which commits for those who wait in one record."""

    def __init__(self, place: Place, ids: Sequence[str], clients: int, *, shared: bool) -> None:
        self._place, self._url = place, place.new()
        self._threads = set(threading.enumerate())
        filled = place.connect(self._url, fill=True)
        table = filled.create_table(TABLE, kind="records", indices=[FIELD])
        with filled.begin() as tx:
            for id in ids:
                tx.upsert(TABLE, id, document(id))
        settle(table.session.store)
        dbs = [place.connect(self._url) for _ in range(1 if shared else clients)]
        self.clients = [FirnClient(dbs[n % len(dbs)]) for n in range(clients)]
        self._dbs, self._beside = dbs, list[FirnClient]()

    def beside(self, clients: int) -> list[FirnClient]:
        """Clients of another process, as far as Firn is concerned, which share it."""
        db = self._place.connect(self._url)
        self._beside = [FirnClient(db) for _ in range(clients)]
        return self._beside

    def total(self) -> int:
        rows = self._place.connect(self._url, fill=True).table(TABLE).scan()
        return sum(row["n"] for row in rows)

    def spent(self) -> dict[str, int]:
        found = [db.bucket.counters.as_dict() for db in self._dbs]
        verbs = (verb for verb in found[0] if not verb.startswith("bytes"))
        return {verb: sum(counters[verb] for counters in found) for verb in verbs}

    def close(self) -> None:
        """Leave nobody who would apply commits: the store may be gone soon."""
        for client in [*self.clients, *self._beside]:
            client.db = None
        self._dbs = []
        until = time.monotonic() + 10
        while (appliers := self._appliers()) and time.monotonic() < until:
            gc.collect()  # which ends those that aren't at anything
            appliers[0].join(0.01)

    def _appliers(self) -> list[threading.Thread]:
        new = set(threading.enumerate()) - self._threads
        return [thread for thread in new if thread.name == "firn-applier"]


@contextmanager
def firn_work(place: Place, ids: Sequence[str], clients: int, *, shared: bool) -> Iterator[FirnWork]:
    work = FirnWork(place, ids, clients, shared=shared)
    try:
        yield work
    finally:
        work.close()


# -- SQLite


def connected(path: Path) -> sqlite3.Connection:
    """Durable as Firn is on a directory: a commit returns when it is on the disk."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def fill_sqlite(connection: sqlite3.Connection, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
    connection.execute("BEGIN")
    connection.execute(
        f"CREATE TABLE {TABLE} (id TEXT PRIMARY KEY, {FIELD} TEXT, document TEXT) WITHOUT ROWID"
    )
    connection.execute(f"CREATE INDEX by_{FIELD} ON {TABLE} ({FIELD})")
    connection.executemany(
        f"INSERT INTO {TABLE} VALUES (?, ?, ?)", ((id, row[FIELD], json.dumps(row)) for id, row in rows)
    )
    connection.execute("COMMIT")


class SQLiteClient:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def change(self, id: str) -> int:
        self._connection.execute("BEGIN IMMEDIATE")  # else who reads first may have to begin again
        row = self._row(id)
        row["n"] += 1
        self._connection.execute(f"UPDATE {TABLE} SET document = ? WHERE id = ?", (json.dumps(row), id))
        self._connection.execute("COMMIT")
        return 1

    def read(self, id: str) -> int:
        self._connection.execute("BEGIN")
        self._row(id)
        self._connection.execute("COMMIT")
        return 1

    def _row(self, id: str) -> dict[str, Any]:
        found = self._connection.execute(f"SELECT document FROM {TABLE} WHERE id = ?", (id,)).fetchone()
        row: dict[str, Any] = json.loads(found[0])
        return row


class SQLiteWork:
    """`clients` connections to a database of its own, in a directory."""

    def __init__(self, path: Path, ids: Sequence[str], clients: int) -> None:
        self._connections = [connected(path) for _ in range(clients)]
        fill_sqlite(self._connections[0], ((id, document(id)) for id in ids))
        self.clients = [SQLiteClient(connection) for connection in self._connections]

    def total(self) -> int:
        rows = self._connections[0].execute(f"SELECT document FROM {TABLE}").fetchall()
        return sum(json.loads(row[0])["n"] for row in rows)

    def spent(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


@contextmanager
def sqlite_work(place: Place, ids: Sequence[str], clients: int) -> Iterator[SQLiteWork]:
    """In a place that is a directory."""
    work = SQLiteWork(Path(f"{place.new()}.sqlite"), ids, clients)
    try:
        yield work
    finally:
        work.close()
