"""The processes that share a database of record tables: clients, each with some threads, appliers, collectors, and
who builds an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from operator import methodcaller
from typing import Any

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    FirnError,
    NoSuchKeyError,
    NotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
)
from firn.journal.sequence import GroupCommit
from firn.records.apply import apply
from firn.records.apply.commit_applier import IDLE_S, PATIENCE_S, Applier
from firn.records.definition.alteration import Alteration
from firn.records.definition.definition import Index, read_definition
from firn.records.documents.predicates import Contains, Range
from firn.records.maintain import alter, collection, indexes
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import Transaction, begin
from firn.testing import SimClient
from firn.testing.history import Recording
from simulation.manifest_process import Process
from simulation.records_model import Document, Found, Look, Model, Observed, matching
from simulation.records_verbs import each_verb, entries

STORE = (StoreUnavailableError, OutcomeUnknownError)

BADGES = (*range(12), None)
EMAILS = ("ada", "bob", "cyd", "dee", None)
TAGS = ("sea", "sun", "rain", 1, None)
SHIFTS = ("day", "night")
USERS = tuple(f"user{n}" for n in range(5))
LISTS = tuple(f"list{n}" for n in range(6))


@dataclass(frozen=True)
class Habits:
    """What a world's clients do: `mix` are weights of workloads, `rounds` transactions a thread; `applies`: each
    process has the thread that applies its commits, and those that others leave behind; `builds`: tables, and indices
    of them that come and go."""

    mix: Mapping[str, int]
    rounds: int
    threads: int = 1
    serializable: float = 0.0
    lock: float = 0.0
    group: bool = True
    pause_s: float = 5.0
    timeout_s: float = 600.0
    freshness_s: float = 30.0
    max_lag: int = 64
    applies: bool = False
    builds: tuple[tuple[str, Index], ...] = (("users", Index("city")),)


class Watched(Applier):
    """Counts what it applies for others."""

    def __init__(self, model: Model, store: RecordStore, client: SimClient) -> None:
        super().__init__(store, rng=client.random)
        self._model = model

    def _apply_others(self) -> None:
        before = len(self._store.log.pending())
        super()._apply_others()
        self._model.happened["applied"] += 1
        self._model.happened["applied for others"] += len(self._store.log.pending()) < before


class Turn:
    """What a simulated thread waits by."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def wait(self) -> None:
        while not self._is_set:
            self._process.clock.sleep(0.5)


class OneAtATime:
    """What simulated threads do by one another's end."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._process.clock.sleep(0.5)
        self._held = True

    def __exit__(self, *raised: object) -> None:
        self._held = False


class Clients:
    """The programs of one world. `open_store` makes a process's `RecordStore` from its bucket."""

    def __init__(self, model: Model, habits: Habits, open_store: Callable[[Any, Any], RecordStore]) -> None:
        self.model, self.habits = model, habits
        self._open_store = open_store

    def rest(self, client: SimClient, seconds: float) -> None:
        client.clock.sleep(client.random.random() * seconds)

    # -- clients

    def client(self, client: SimClient) -> None:
        process = Process(client)
        store = self._open_store(process.bucket, process.clock)
        store.group = GroupCommit(store.log, new_turn=lambda: Turn(process))
        store.applying = OneAtATime(process)
        with process.dying_together():
            for n in range(1, self.habits.threads):
                process.start(f"thread{n}", lambda thread: self._work(thread, store))
            if self.habits.applies:
                process.start("applier", lambda thread: self._apply(thread, store))
            self._work(client, store)

    def _apply(self, client: SimClient, store: RecordStore) -> None:
        """What the thread of an `Applier` does, but that nobody pokes it."""
        applier = Watched(self.model, store, client)
        for _ in range(3 * self.habits.rounds):
            left_s: float | None = IDLE_S
            with suppress(*STORE):
                left_s = applier.work()
            client.clock.sleep(client.random.random() * min(left_s or PATIENCE_S, 2 * self.habits.pause_s))

    def _work(self, client: SimClient, store: RecordStore) -> None:
        names = list(self.habits.mix)
        weights = list(self.habits.mix.values())
        for _ in range(self.habits.rounds):
            self.rest(client, self.habits.pause_s)
            name = client.random.choices(names, weights)[0]
            serializable = name == "doctors" or client.random.random() < self.habits.serializable
            self._transaction(client, store, name, serializable)

    def _transaction(self, client: SimClient, store: RecordStore, name: str, serializable: bool) -> None:
        floor = self.model.acknowledged
        recording = self.model.history.begin() if name in ("lists", "entries") else None
        session: Session | None = None
        outcome = "unknown"
        try:
            tx = begin(
                store,
                serializable=serializable,
                lock=client.random.random() < self.habits.lock,
                timeout_s=self.habits.timeout_s,
            )
            session = Session(self, client, tx, floor, recording)
            getattr(session, name)()
            session.end()
            outcome = "committed"
        except FirnError as error:
            outcome = self._failed(error, session, name)
        finally:
            if recording is not None:
                getattr(recording, outcome)()

    def _failed(self, error: FirnError, session: Session | None, name: str) -> str:
        """What a failure of a transaction means."""
        if not isinstance(
            error,
            (
                *STORE,
                ConflictError,
                DuplicateKeyError,
                NoSuchKeyError,
                SnapshotTooOldError,
                TableNotFoundError,
            ),
        ):
            raise error
        self.model.happened[f"{name}: {error.kind}"] += 1
        self.model.happened[error.kind] += 1
        unknown = isinstance(error, OutcomeUnknownError) and session is not None and session.sent
        if session is not None:
            session.observed.snapshot = session.tx.snapshot
            session.observed.status = "unknown" if unknown else "aborted"
        return "unknown" if unknown else "aborted"

    # -- keepers

    def applier(self, client: SimClient) -> None:
        store = self._open_store(client.bucket, client.clock)
        for _ in range(self.habits.rounds):
            self.rest(client, 2 * self.habits.pause_s)
            try:
                if client.random.random() < 0.5:
                    apply.settle(store)
                else:
                    store.log.refresh()
                    apply.apply(store)
                self.model.happened["applied"] += 1
            except (*STORE, ConflictError):
                continue

    def collector(self, client: SimClient) -> None:
        store = self._open_store(client.bucket, client.clock)
        for _ in range(self.habits.rounds):
            self.rest(client, 4 * self.habits.pause_s)
            try:
                done = collection.collect(store, retention_s=0)
                self.model.happened["versions dropped"] += done.versions
                self.model.happened["truncated"] += done.lo > 0
                if client.random.random() < 0.3:
                    swept = collection.sweep(store, orphan_age_s=10**7)
                    self.model.happened["entries swept"] += swept.entries
            except (*STORE, ConflictError, SnapshotTooOldError):
                continue

    def indexer(self, client: SimClient) -> None:
        """Builds indices while others write, and drops them."""
        store = self._open_store(client.bucket, client.clock)
        builds = cycle(self.habits.builds)
        for _ in range(self.habits.rounds):
            self.rest(client, 4 * self.habits.pause_s)
            table, index = next(builds)
            try:
                if index.field in store.log.refresh().catalog[table].fields and client.random.random() < 0.4:
                    indexes.drop_index(store, table, index.field)
                    self.model.happened["index dropped"] += 1
                else:
                    indexes.build_index(store, table, index.field, unique=index.unique, each=index.each)
                    self.model.happened["index built"] += 1
            except DuplicateKeyError:
                self.model.happened["index refused"] += 1
            except (*STORE, ConflictError, NotFoundError, SnapshotTooOldError):
                continue

    def alterer(self, client: SimClient) -> None:
        """Alters a table that others use, drops its index and builds it, drops the table and makes it again."""
        store = self._open_store(client.bucket, client.clock)
        tables = tables_of(store)
        for _ in range(self.habits.rounds):
            self.rest(client, 3 * self.habits.pause_s)
            try:
                self.model.happened[self._alter(client, store, tables)] += 1
            except (*STORE, ConflictError, NotFoundError, SnapshotTooOldError, TableExistsError):
                continue

    def _alter(self, client: SimClient, store: RecordStore, tables: RecordTables) -> str:
        there = read_definition(client.bucket, "db/orders", clock=client.clock)
        definition = None if there is None else tables.usable(there)
        if definition is None:
            options = RecordOptions(indices=["n"], properties={"inline": "32B"})
            tables.create(tables.describe("orders", options))
            return "table created"
        roll = client.random.random()
        if roll < 0.3:
            tables.drop(definition)
            return "table dropped"
        if roll < 0.7:
            asked = Alteration(properties={"inline": client.random.choice(["8B", "4MB", None])})
            if roll < 0.5:
                asked = Alteration(schema=schema_of_orders(client.random.randrange(3)))
            alter.alter(store, definition, asked, validate=False, dry_run=False)
            return "altered"
        state = store.log.refresh().catalog.get("orders")
        if state is not None and "n" in state.fields:
            indexes.drop_index(store, "orders", "n")
            return "index dropped"
        indexes.build_index(store, "orders", "n")
        return "index built"


def schema_of_orders(kind: int) -> dict[str, Any]:
    """A schema that takes documents of one kind alone."""
    return {"properties": {"kind": {"const": kind}}, "required": ["kind"]}


def tables_of(store: RecordStore) -> RecordTables:
    """What makes and drops tables, with a process's view of the log."""
    tables = RecordTables(store.bucket, store.prefix, "sim://db", clock=store.clock, background=False)
    tables.session._store = store
    return tables


class Session:
    """One transaction of a client, watched. Its methods are the workloads."""

    def __init__(
        self, clients: Clients, client: SimClient, tx: Transaction, floor: int, recording: Recording | None
    ) -> None:
        self.clients, self.client, self.tx, self.recording = clients, client, tx, recording
        self.random = client.random
        self.sent = False
        self.observed = Observed(tx.txid, floor, tx.serializable, began=tx.snapshot, snapshot=tx.snapshot)
        clients.model.observed.append(self.observed)

    def end(self) -> None:
        """Commit, mostly."""
        self.think()
        if self.random.random() < 0.05:
            self.tx.rollback()
            raise ConflictError("thought better of it")
        self.sent = True
        # Inserts may have moved it; if the process dies now, nobody notes it later.
        self.observed.snapshot = self.tx.snapshot
        number = self.tx.commit()
        self.clients.model.ended(self.observed, number)

    def think(self) -> None:
        if self.random.random() < 0.3:
            self.clients.rest(self.client, self.random.choice([1, 1, 10, 60]))

    # -- operations, watched

    def get(self, table: str, id: str) -> Document | None:
        try:
            row: Any = self.tx.get(table, id)
        except NoSuchKeyError:
            row = None
        self.looked(table, id, methodcaller("get", id), None if row is None else row.document)
        return row

    def find(self, table: str, **where: Any) -> list[Any]:
        rows = self._all(lambda **page: self.tx.find(table, where, **page))
        return self._found(table, where, rows)

    def scan(self, table: str, **where: Any) -> list[Any]:
        rows = self._all(lambda **page: self.tx.scan(table, where, **page))
        return self._found(table, where, rows)

    def _found(self, table: str, where: Mapping[str, Any], rows: list[Any]) -> list[Any]:
        found = {row["_id"]: row.document for row in rows}
        self.looked(table, where, partial(matching, where=dict(where)), found)
        return rows

    def _all(self, look: Callable[..., list[Any]]) -> list[Any]:
        """At once, or in pages."""
        if len(self.observed.looks) % 3:
            return look()
        rows = page = look(limit=2)
        while page:
            page = look(limit=2, after=rows[-1])
            rows = [*rows, *page]
        return rows

    def looked(
        self, table: str, what: Any, ask: Callable[[Found], Any], answer: Any, *, latest: int = 0
    ) -> None:
        """Note an answer, which the log will tell to be right or wrong."""
        own = {id: document for (name, id), document in self.observed.writes.items() if name == table}
        self.observed.looks.append(Look(self.tx.snapshot, table, str(what), ask, answer, own, latest))

    def insert(self, table: str, id: str, document: Document) -> None:
        self.tx.insert(table, id, document)
        self.observed.writes[table, id] = document

    def update(self, table: str, id: str, document: Document, **options: Any) -> None:
        self.tx.update(table, id, document, **options)
        self.observed.writes[table, id] = document

    def upsert(self, table: str, id: str, document: Document) -> None:
        self.tx.upsert(table, id, document)
        self.observed.writes[table, id] = document

    def delete(self, table: str, id: str) -> None:
        self.tx.delete(table, id)
        self.observed.writes[table, id] = None

    # -- workloads

    def bank(self) -> None:
        """Move money between two accounts; at times close an emptied one, or open one."""
        accounts = self._accounts()
        if self.random.random() < 0.25 or len(accounts) < 2:
            return
        self.think()
        giver, taker = self.random.sample(accounts, 2)
        amount = self.random.randint(0, giver["balance"])
        roll = self.random.random()
        if roll < 0.2 and len(accounts) > 2:
            self.delete("bank", giver["_id"])
            self._set_balance(taker, taker["balance"] + giver["balance"])
        elif roll < 0.45:
            self.insert("bank", f"account{self.random.randrange(6)}", {"kind": "account", "balance": amount})
            self._set_balance(giver, giver["balance"] - amount)
        else:
            self._set_balance(giver, giver["balance"] - amount)
            self._set_balance(taker, taker["balance"] + amount)

    def _accounts(self) -> list[Any]:
        roll = self.random.random()
        if roll < 0.35:
            return self.find("bank", kind="account")
        if roll < 0.65:
            return self.find("bank", balance=Range(0, 1000))
        if roll < 0.75:
            return self.scan("bank")
        return [row for n in range(6) if (row := self.get("bank", f"account{n}")) is not None]

    def _set_balance(self, account: Any, balance: int) -> None:
        options = {"etag": account.etag} if self.random.random() < 0.3 else {}
        self.update("bank", account["_id"], {"kind": "account", "balance": balance}, **options)

    def lists(self) -> None:
        """Read some lists, and append to some."""
        assert self.recording is not None
        known: dict[str, list[int]] = {}
        if self.random.random() < 0.4:
            group = self.random.choice(("even", "odd"))
            rows = {row["_id"]: row for row in self.find("lists", group=group)}
            for n, name in enumerate(LISTS):
                if ("even", "odd")[n % 2] == group:
                    known[name] = list(rows[name]["values"]) if name in rows else []
        for name in self.random.sample(LISTS, self.random.randint(1, 3)):
            if name not in known:
                row = self.get("lists", name)
                known[name] = [] if row is None else list(row["values"])
        for name, values in known.items():
            self.recording.read(name, values)
        self.think()
        for name in self.random.sample(sorted(known), min(len(known), self.random.randint(0, 2))):
            element = self.clients.model.element()
            values = [*known[name], element]
            group = ("even", "odd")[LISTS.index(name) % 2]
            self.recording.append(name, element)
            document = {"group": group, "values": values}
            if known[name]:
                self.update("lists", name, document)
            elif self.random.random() < 0.5:
                self.upsert("lists", name, document)
            else:
                self.insert("lists", name, document)

    def doctors(self) -> None:
        """Go off call if another one stays, or on call again."""
        shift = self.random.choice(SHIFTS)
        on = self.find("doctors", shift=shift, on=True)
        self.think()
        name = f"{shift}{self.random.randrange(3)}"
        off = len(on) > 1 and name in {doctor["_id"] for doctor in on}
        if off or name not in {doctor["_id"] for doctor in on}:
            self.upsert("doctors", name, {"shift": shift, "on": not off})

    def moves(self) -> None:
        """Rows that are deleted and inserted again while others know something of them."""
        ids = self.random.sample(USERS, 3)
        looked = self.random.randint(0, 2)
        for id in ids[:looked]:
            self.get("moved", id)
        if self.random.random() < 0.3:
            self.find("moved", n=self.random.randrange(3))
        self.think()
        there = {row["_id"] for row in self.scan("moved")} if self.random.random() < 0.2 else None
        for id in ids[self.random.randint(0, 2) :]:
            document = {"n": self.random.randrange(3), "by": self.tx.txid}
            if self.random.random() < 0.6 if there is None else id not in there:
                self.insert("moved", id, document)
            elif self.get("moved", id) is not None:
                self.delete("moved", id)
        for id in self.random.sample(USERS, 2):
            self.get("moved", id)

    def verbs(self) -> None:
        """Any verbs, in any order."""
        each_verb(self)

    def entries(self) -> None:
        """Lists whose elements are rows."""
        entries(self)

    def orders(self) -> None:
        """Rows of a table that may be altered or dropped at any time; a few have a megabyte."""
        table = self.tx._table("orders")
        index, schema = table.state.fields.get("n"), table.documents.schema
        kind = None if schema is None else schema["properties"]["kind"]["const"]
        for id in self.random.sample(USERS, self.random.randint(1, 3)):
            roll = self.random.random()
            if roll < 0.2 and index is not None and 0 < index.ready <= self.tx.snapshot:
                self.find("orders", n=self.random.randrange(3))
            elif roll < 0.4:
                self.scan("orders")
            self.think()
            row = self.get("orders", id) if roll < 0.7 else None
            document = {"n": self.random.randrange(3), "by": self.tx.txid, "text": self.clients.model.text()}
            document |= {} if kind is None else {"kind": kind}
            if row is None or roll < 0.3:
                self.upsert("orders", id, document)
            elif roll < 0.5:
                self.delete("orders", id)
            else:
                self.update("orders", id, document)

    def users(self) -> None:
        """Users with emails that nobody else may have."""
        id = self.random.choice(USERS)
        document = {"email": self.random.choice(EMAILS), "city": self.random.choice(("Ann Arbor", "Oslo"))}
        roll = self.random.random()
        if roll < 0.3:
            self.insert("users", id, document)
        elif roll < 0.5:
            self.upsert("users", id, document)
        elif roll < 0.8:
            if self.get("users", id) is not None:
                self.update("users", id, document)
        elif roll < 0.9 and self.get("users", id) is not None:
            self.delete("users", id)
        self._finds_users()

    def badges(self) -> None:
        """Rows that take and keep a value, which a unique index may be built on at any time."""
        for id in self.random.sample(USERS, self.random.randint(1, 2)):
            row = self.get("badges", id) if self.random.random() < 0.6 else None
            if row is not None and self.random.random() < 0.3:
                self.update("badges", id, {**row.document, "by": self.tx.txid})
            elif row is not None and self.random.random() < 0.2:
                self.delete("badges", id)
            else:
                self.upsert("badges", id, {"badge": self.random.choice(BADGES), "by": self.tx.txid})

    def tags(self) -> None:
        """Rows with lists, whose elements are looked for; no two rows may share a key while an index says so."""
        for id in self.random.sample(USERS, self.random.randint(1, 2)):
            row = self.get("tagged", id) if self.random.random() < 0.6 else None
            if row is not None and self.random.random() < 0.2:
                self.delete("tagged", id)
                continue
            lists = {
                "tags": self.random.choices(TAGS, k=self.random.randrange(4)),
                "keys": self.random.sample(BADGES, self.random.randrange(3)),
            }
            if row is not None and self.random.random() < 0.3:
                lists = row.document
            self.upsert("tagged", id, {**lists, "by": self.tx.txid})
        self.think()
        for field, elements in (("tags", TAGS), ("keys", BADGES)):
            index = self.tx._table("tagged").state.fields.get(field)
            asked = Contains(self.random.choice(elements))
            if index is not None and 0 < index.ready <= self.tx.snapshot:
                self.find("tagged", **{field: asked})
                self.clients.model.happened["index used"] += 1
            elif self.random.random() < 0.2:
                self.scan("tagged", **{field: asked})

    def _finds_users(self) -> None:
        table = self.tx._table("users")
        index = table.state.fields.get("city")
        if index is not None and 0 < index.ready <= self.tx.snapshot:
            self.find("users", city="Oslo")
            self.clients.model.happened["index used"] += 1
        elif self.random.random() < 0.3:
            self.find("users", email=self.random.choice(EMAILS))
