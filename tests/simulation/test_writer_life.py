"""Whole lives of a database of writers' catalogs, by seed, against the rows that each table should have.

Work takes longer than `orphan_age`, sweeps and prunes come in between, tables are dropped and made again while others
append, the database's own objects are damaged, connections come under another URL, processes race for one id, and
readers have been open for long.
"""

from __future__ import annotations

import datetime as dt
import random
from itertools import product

import pytest

from firn.database.writer_tables import WriterTables
from firn.degraded import forget_warnings
from firn.errors import (
    AppendExpiredError,
    ConflictError,
    DegradedReadWarning,
    HandleClosedError,
    NotFoundError,
    SnapshotTooOldError,
    TableNotFoundError,
)
from firn.journal.model import Commit, KnownColumns
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.history.listing import list_settled
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.lake.write.append import write
from firn.runner import InProcess, LocalRunner
from firn.testing import SimStore
from simulation.seeds import seeds

NAMES = ("short", "usual")
AGES_S = {"short": 100, "usual": 7 * 86_400}
RECORD = "db/_firn/database.json"
VALUES = {"BIGINT": 1, "VARCHAR": "oops", "DOUBLE": 0.5, "DATE": dt.date(2024, 1, 1)}
STEPS = 25
NOTICING = (5, 14)
"""Seeds that come to what few do: a first append that another table's sweep takes, and a handle of a dropped table
that remembers another writer's part of it."""


class Life:
    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(f"life {seed}")
        self.patch = monkeypatch
        self.store = SimStore(conditional_put=self.rng.random() < 0.5)
        self.bucket = self.store.bucket()
        self.rows: dict[str, set[int]] = {name: set() for name in NAMES}
        self.past: list[tuple[dt.datetime, dict[str, set[int]], dict[str, str]]] = []
        self.serial = 0
        self.owner: dict[int, str | None] = {}
        self.first: dict[tuple[str, str], int] = {}
        self.kinds: dict[int, str] = {}
        self.parts: dict[str, set[str | None]] = {}
        self.made: dict[str, str] = {}
        self.disordered: set[str] = set()
        self.writers = {name: self.open(name, "db") for name in ("a", "b")}
        for name in NAMES:
            self.make(self.writers["a"], name)
        self.reader = self.open(None, "db")

    def open(self, writer: str | None, name: str, *, strict: bool = True) -> WriterTables:
        engines = InProcess(LocalRunner(threads=1))
        return WriterTables(
            self.bucket, "db", f"sim://{name}", engines, writer=writer, strict=strict, clock=self.bucket.clock
        )

    def make(self, tables: WriterTables, name: str) -> None:
        """A table that knows nothing of those that had its name."""
        properties = {"orphan_age": f"{AGES_S[name]}s"}
        table = tables.define(LakeDefinition(name, journal="writer", properties=properties))
        self.made[name] = table.context.definition.id
        self.rows[name], self.parts[name] = set(), {tables.writer}
        self.first = {key: order for key, order in self.first.items() if key[0] != name}
        self.disordered.discard(name)
        if self.rng.random() < 0.5:
            table.append(rows := self.fresh(tables), batch_id="the first")
            self.added(tables, name, rows)

    def added(self, tables: WriterTables, name: str, rows: list[dict[str, int]]) -> None:
        """The rows are in the writer's part of the table, which it has from now on."""
        self.rows[name] |= {row["id"] for row in rows}
        self.parts[name].add(tables.writer)

    def table(self, tables: WriterTables, name: str) -> LakeTable:
        found = tables.find(name)
        assert found is not None, f"there is no table {name} any more"
        return found

    def fresh(self, tables: WriterTables, count: int = 1) -> list[dict[str, int]]:
        ids = range(self.serial, self.serial + count)
        self.serial += count
        self.owner.update(dict.fromkeys(ids, tables.writer))
        return [{"id": n} for n in ids]

    def ids(self, tables: WriterTables, name: str, at: dt.datetime | None = None) -> set[int]:
        scan = self.table(tables, name).scan(at=at)
        found = scan.to_arrow()["id"].to_pylist() if scan.snapshot.columns else []
        assert len(found) == len(set(found))
        return set(found)

    def step(self) -> None:
        self.bucket.clock.sleep(self.rng.choice([1, 5, 60]))
        self.done = self.rng.choice(
            [
                *(
                    self.append,
                    self.late_append,
                    self.late_append,
                    self.slow_transaction,
                    self.slow_first_append,
                    self.deletes,
                    self.drop,
                ),
                *(
                    self.sweep,
                    self.prune,
                    self.damage,
                    self.reopen,
                    self.race,
                    self.break_writer,
                    self.break_floor,
                ),
                *(self.look_back, self.look_back, self.checkpoint),
            ]
        )
        self.done()
        self.bucket.clock.sleep(1)
        seen = self.open(None, self.rng.choice(["db", "other"]))
        for name in NAMES:
            found = self.ids(seen, name)
            assert (self.rows[name] - found, found - self.rows[name]) == (set(), set()), (
                "lost, doubled",
                name,
            )
            assert self.table(seen, name).context.definition.id == self.made[name]
        now = dt.datetime.fromtimestamp(self.bucket.clock.now_ms() / 1000, dt.timezone.utc)
        self.past.append((now, {name: set(ids) for name, ids in self.rows.items()}, dict(self.made)))

    def any(self) -> WriterTables:
        return self.writers[self.rng.choice("ab")]

    def append(self, tables: WriterTables | None = None) -> None:
        tables = tables or self.any()
        name, rows = self.rng.choice(NAMES), self.fresh(tables, 2)
        self.table(tables, name).append(rows)
        self.added(tables, name, rows)

    def late_append(self) -> None:
        """By writers that know the table from when it had no columns; then all rows of a type may go."""
        name = self.rng.choice(NAMES)
        for tables in (self.any(), self.any()):
            table, (row,) = self.table(tables, name), self.fresh(tables)
            kind, value = self.rng.choice(list(VALUES.items()))
            self.first.setdefault((name, kind), self.serial)
            self.kinds[row["id"]] = kind
            with self.patch.context() as stale:
                stale.setattr(table.journal, "known", lambda **_: KnownColumns({}))
                table.append([{**row, "v": value}])
            self.added(tables, name, [row])
            self.bucket.clock.sleep(1)
            (read,) = self.table(tables, name).scan(where=f"id = {row['id']}").to_arrow().to_pylist()
            assert [read[c] for c in read if c[0] == "v" and read[c] is not None] == [value]
        for id_ in [n for n in self.rows[name] if self.kinds.get(n) == kind and self.rng.random() < 0.8]:
            self.table(self.writers[self.owner[id_] or ""], name).delete(f"id = {id_}", soft=False)
            self.rows[name].remove(id_)
        conflicts = self.table(self.any(), name).conflicts()
        assert all(conflict.files for conflict in conflicts), "types of files that are gone don't count"
        types = {conflict.type for conflict in conflicts}
        assert (
            not types
            or name in self.disordered
            or min(self.first[name, other] for other in types)
            > min(self.first[name, conflict.kept_type] for conflict in conflicts)
        ), "who was first has the column"

    def break_writer(self) -> None:
        """While a transaction can't be read, whoever reads the others is told."""
        history = self.any().own.history
        head = history.load().head
        if not head.revision or history.newest_checkpoint == head.revision:
            return
        key = history.layout.transaction_key(head.revision, head.uuid or "")
        whole = self.store.contents()[key]
        self.store.write(key, whole[:-1] + bytes([whole[-1] ^ 1]))
        said = f"the writer {history.layout.writer} is left out"
        reader = self.open(None, "db", strict=False)
        forget_warnings()
        with pytest.warns(DegradedReadWarning, match=said):
            names = reader.names()
        for table in [self.table(reader, name) for name in names]:
            with pytest.warns(DegradedReadWarning, match=f"{table.name}: {said}"):
                table.snapshot()
        self.store.write(key, whole)

    def break_floor(self) -> None:
        """The transaction that history begins with can't be read; the checkpoint beside it tells the same."""
        history = self.any().own.history
        if not history.load().head.revision:
            return
        names = list_settled(self.bucket, history.layout, 0)
        floor = min(names.transactions)
        for prefix in names.transactions[floor] if floor in names.checkpoints else ():
            key = history.layout.transactions_prefix + f"{floor:020d}.{prefix}.transaction"
            whole = self.store.contents()[key]
            self.store.write(key, whole[:-1])
            for _ in range(3):
                self.look_back()
            self.store.write(key, whole)

    def slow_transaction(self) -> None:
        tables = self.any()
        added = {name: self.fresh(tables) for name in NAMES}
        try:
            with tables.writer_transaction() as tx:
                for name, rows in added.items():
                    tx.append(name, rows)
                self.bucket.clock.sleep(self.rng.choice([1, 200]))
                for _ in range(self.rng.choice([0, 2])):
                    self.append(tables)
                self.table(tables, "short").sweep()
        except AppendExpiredError:
            return
        for name, rows in added.items():
            self.added(tables, name, rows)

    def slow_first_append(self) -> None:
        """Of a table that this writer hasn't got, if there is one, while another one is swept."""
        tables = self.any()
        name = self.rng.choice([n for n in NAMES if tables.writer not in self.parts[n]] or NAMES)
        rows = self.fresh(tables)
        table = self.table(tables, name)
        ticket = table.journal.begin_append()
        written, _ = write(table.context, rows, ticket.namer)
        self.bucket.clock.sleep(self.rng.choice([1, 200]))
        other = self.table(tables, "short")
        for _ in range(2):
            more = self.fresh(tables)
            other.append(more)
            self.added(tables, "short", more)
        other.sweep()
        try:
            ticket.commit(Commit("append", written.files, columns=written.columns))
        except AppendExpiredError:
            return
        self.added(tables, name, rows)

    def drop(self) -> None:
        """A writer's part goes with its rows, and the table with the last part; while another append is under way."""
        name, late = self.rng.choice(NAMES), self.any()
        tables = self.rng.choice([self.any(), self.open(self.rng.choice("ab"), "db")])
        if self.rng.random() < 0.7 and tables.writer in self.parts[name]:  # which is the last one then
            self.drop_part(self.writers["b" if tables.writer == "a" else "a"], name)
        handles = [self.table(each, name) for each in (*self.writers.values(), self.reader)]
        old, defined, rows = self.made[name], late.writer in self.parts[name], self.fresh(late)
        ticket = self.table(late, name).journal.begin_append()
        written, _ = write(handles[0].context, rows, ticket.namer)

        self.drop_part(tables, name)
        gone, maker = not self.parts[name], self.rng.choice([None, self.any()])
        assert (name in self.open(None, "db").names()) is not gone
        if gone and maker is not None:
            self.make(maker, name)
        if self.rng.random() < 0.5:
            self.table(self.any(), next(other for other in NAMES if other != name)).sweep()

        made = gone and maker is not None
        dropped_its_own = defined and late.writer == tables.writer
        if dropped_its_own or (made and maker is late):
            with pytest.raises((ConflictError, TableNotFoundError)):
                ticket.commit(Commit("append", written.files, columns=written.columns))
        else:  # it may bring the table back
            ticket.commit(Commit("append", written.files, columns=written.columns))
            self.added(late, name, rows)
            if gone:
                self.made[name] = old
        if made and self.made[name] == old:  # beside the next one
            assert "the earliest definition counts" in str(self.table(self.reader, name).snapshot().warnings)
            assert self.ids(self.reader, name) == self.rows[name]
            for each in self.writers.values():
                self.drop_part(each, name)
        if not self.parts[name]:
            assert name not in self.open(None, "db").names()
            self.make(self.any(), name)
        if self.made[name] != old:
            for handle, verb in product(handles, ("snapshot", "history", "merge")):
                if handle is not handles[-1] or verb != "merge":  # that one only reads
                    with pytest.raises(TableNotFoundError, match="was dropped"):
                        getattr(handle, verb)()
            with pytest.raises(TableNotFoundError, match="was dropped"):
                handles[0].append([{"id": -1}])
        self.catch_up(self.writers[tables.writer or ""], name)

    def catch_up(self, tables: WriterTables, name: str) -> None:
        """Append; a connection that another process of its id has dropped the part of is told so once."""
        table, rows = self.table(tables, name), self.fresh(tables)
        try:
            table.append(rows)
        except ConflictError:  # as its message advises
            table.append(rows)
        self.added(tables, name, rows)

    def drop_part(self, tables: WriterTables, name: str) -> None:
        others = self.parts[name] - {tables.writer}
        assert set(tables.drop(name).still_has) == others
        self.parts[name] = others
        self.rows[name] = {n for n in self.rows[name] if self.owner[n] != tables.writer}
        self.disordered.add(name)

    def deletes(self) -> None:
        """Two in one transaction, and a commit of the same connection meanwhile."""
        tables, name = self.any(), self.rng.choice(NAMES)
        mine = {n for n in self.rows[name] if self.owner[n] == tables.writer}
        if len(mine) < 2:
            return
        gone = self.rng.sample(sorted(mine), 2)
        with tables.writer_transaction() as tx:
            for id_ in gone:
                tx.delete(name, f"id = {id_}")
            self.append(tables)
        self.rows[name] -= set(gone)

    def sweep(self) -> None:
        tables = self.any()
        history = tables.own.history
        if history.load().head.revision:
            collect(history, orphan_age_ms=0)

    def prune(self) -> None:
        history = self.any().own.history
        if history.load().head.revision:
            prune(history, older_than_ms=self.rng.choice([0, 60_000, 200_000]))

    def checkpoint(self) -> None:
        """So that readers from now on haven't read what is below; one begins."""
        self.table(self.any(), "usual").checkpoint()
        self.reader = self.open(None, "db")
        self.look_back()

    def damage(self) -> None:
        """A bit of the database's record, or all of it; 0.1 wrote none of the checksums."""
        if RECORD not in self.store:
            return
        body = bytearray(self.store.contents()[RECORD])
        match self.rng.randrange(3):
            case 0:
                self.store.remove(RECORD)
                return
            case 1:
                body = bytearray(b'{"firn":1,"database":"dc"}')
            case _:
                body[self.rng.randrange(len(body))] ^= 1 << self.rng.randrange(8)
        self.store.write(RECORD, bytes(body))

    def reopen(self) -> None:
        """Under another URL."""
        writer = self.rng.choice("ab")
        self.writers[writer] = self.open(writer, self.rng.choice(["db", "other"]))

    def race(self) -> None:
        """One commit loses to the end against another process of its id; whatever follows goes on."""
        writer = self.rng.choice("ab")
        tables, rival, commit = self.writers[writer], self.open(writer, "db"), Handle.commit
        table = self.table(tables, "usual")

        def overtaken(handle: Handle, *args: object, **more: object) -> object:
            if handle.history is tables.own.history:
                self.patch.setattr(Handle, "commit", commit)
                self.append(rival)
                self.patch.setattr(Handle, "commit", overtaken)
            return commit(handle, *args, **more)  # type: ignore[arg-type]

        self.patch.setattr(Handle, "commit", overtaken)
        with pytest.raises(HandleClosedError):
            table.append(self.fresh(tables))
        self.patch.setattr(Handle, "commit", commit)
        self.rng.choice([table.snapshot, table.merge, tables.writer_transaction, table.journal.known])()

    def look_back(self) -> None:
        """A reader that was open all the time sees what a new one sees."""
        if not self.past:
            return
        time, rows, made = self.rng.choice(self.past)
        for name in NAMES:
            if made[name] != self.made[name]:
                with pytest.raises(NotFoundError):
                    self.ids(self.rng.choice([self.reader, self.open(None, "db")]), name, time)
                continue
            try:
                wanted = self.ids(self.open(None, "db"), name, time)
            except SnapshotTooOldError:
                continue
            assert wanted == rows[name] == self.ids(self.reader, name, time)


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_whole_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (*seeds(3), *NOTICING):
        life = Life(seed, monkeypatch)
        for number in range(STEPS):
            try:
                life.step()
            except ConflictError as error:
                raise AssertionError(f"seed {seed}, step {number}, {life.done.__name__}: {error}") from error
            except Exception as error:
                raise AssertionError(
                    f"seed {seed}, step {number}, {life.done.__name__}: {error!r}"
                ) from error
