"""Random histories of a writer's catalog over real files, what they were at each revision, and what may be lost."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Action, Add, Define, Drop, Remove, Tombstones
from firn.journal.writer.format.identity import Ticket
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.rows import stored
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.history import History
from firn.journal.writer.rebuild.rebuild import RebuildReport
from firn.lake.maintain.rebuild import rebuild
from firn.lake.partition.partition import PartitionSpec
from firn.lake.write.write import WriteSpec, write_batches
from firn.runner import LocalRunner
from firn.testing import SimStore

LAYOUT = WriterLayout("prod", "host-17", "db")
COLUMNS = {"id": "BIGINT", "x": "DOUBLE", "s": "VARCHAR"}
NARROW = {"id": "BIGINT"}
RUNNER = LocalRunner(threads=1)

Truth = Mapping[str, Any]


def facts(state: CatalogState) -> Truth:
    """A state without what a rebuild can't know: when a file was made, in which order schemas appeared."""
    return {
        name: (
            table.spec,
            {
                path: (live.file._replace(created_ms=0), live.columns, live.revision, live.deletes)
                for path, live in table.files.items()
            },
            {batch: revision for batch, (revision, _) in table.batches.items()},
        )
        for name, table in state.tables.items()
    }


def opened(bucket: Bucket) -> Handle:
    return Handle(History(bucket, LAYOUT), clock=getattr(bucket, "clock", None))


def loaded(store: SimStore) -> CatalogState:
    version = History(store.bucket(), LAYOUT).load()
    assert version.fork is None
    return version.state


def rebuilt(store: SimStore, **options: Any) -> RebuildReport:
    bucket = store.bucket()
    return rebuild(bucket, LAYOUT, RUNNER, clock=bucket.clock, **options)


def written(
    bucket: Bucket, ticket: Ticket, rows: list[dict[str, Any]], table: str = "t", **options: Any
) -> list[Add]:
    """Files of these rows, as a task of the lake writes them."""
    columns = {name: COLUMNS[name] for name in rows[0]} if rows else NARROW
    spec = WriteSpec(LAYOUT.namer(table, ticket), columns, PartitionSpec(()), **options)
    files = write_batches(bucket, spec, [pa.Table.from_pylist(rows)])
    return [Add(table, file, tuple(columns.items())) for file in files]


@dataclass
class Historian:
    """Commits at random, and knows what the catalog was at each revision."""

    store: SimStore
    rng: random.Random
    truth: dict[int, Truth] = field(default_factory=lambda: {0: {}})
    last: list[Action] = field(default_factory=list)
    serial: int = 0
    inlines: bool = False

    def __post_init__(self) -> None:
        self.bucket = self.store.bucket()
        self.handle = opened(self.bucket)
        self.waiting: Ticket | None = None

    def commit(self, actions: list[Action], *, op: str, ticket: Ticket | None = None, **options: Any) -> None:
        fresh = [t for t in ("t", "u") if any(isinstance(a, Add) and a.table == t for a in actions)]
        defines = [Define(t, t.encode()) for t in fresh if t not in self.handle.state.tables]
        self.last = [*defines, *actions]
        head = self.handle.commit(self.last, op=op, ticket=ticket, **options)
        self.truth[head.revision] = facts(self.handle.state)

    def rows(self) -> list[dict[str, Any]]:
        self.serial += 1
        row = {"id": self.serial, "x": self.rng.choice([0.5, float("nan"), None]), "s": f"é{self.serial}"}
        return [{name: row[name] for name in (COLUMNS if self.rng.random() < 0.8 else NARROW)}]

    def live(self, table: str = "t") -> list[DataFile]:
        found = self.handle.state.tables.get(table)
        return [] if found is None else [live.file for live in found.files.values()]

    def step(self) -> None:
        ops = [self.append, self.append, self.append, self.merge, self.remove, self.delete, self.overlap]
        ops += [self.register, self.drop, self.batch, self.checkpoint]
        ops += [self.inline] * 4 if self.inlines else []
        self.rng.choice(ops)()

    def append(self, table: str | None = None, **options: Any) -> None:
        ticket = self.waiting or self.handle.begin()
        self.waiting = None
        table = table or self.rng.choice(["t", "t", "t", "u"])
        adds = [
            a
            for _ in range(self.rng.choice([1, 2]))
            for a in written(self.bucket, ticket, self.rows(), table)
        ]
        self.commit(list(adds), op="append", ticket=ticket, **options)

    def inline(self) -> None:
        """Rows that stand in the catalog, which a merge may later write into a file."""
        (row,) = self.rows()
        table = self.rng.choice(["t", "t", "u"])
        values = [["NaN" if value != value else value] for value in row.values()]
        part = InlinedRows.of({name: COLUMNS[name] for name in row}, values, 1)
        path = LAYOUT.rows_path(table, self.handle.head.revision + 1)
        file = stored(DataFile("", 0, 0, {"rows": 1, "inlined": part}), path, self.serial, path)
        batches = [(table, f"batch {self.serial}")] if self.rng.random() < 0.2 else []
        self.commit([Add(table, file, tuple(part.columns.items()))], op="append", batches=batches)

    def batch(self) -> None:
        self.append("t", batches=[("t", f"batch {self.serial}")])

    def overlap(self) -> None:
        """Begin an append that ends after another commit."""
        self.waiting = self.handle.begin()

    def merge(self) -> None:
        files = self.live()
        if len(files) < 2:
            return self.append("t")
        chosen = self.rng.sample(files, 2)
        paths = tuple(f.path for f in chosen)
        ticket = self.handle.begin()
        adds = written(self.bucket, ticket, self.rows(), replaces=paths, applied=("id < 0",))
        self.commit([*map(Remove, paths), *adds], op="merge", ticket=ticket, replaced=paths)
        return None

    def remove(self) -> None:
        files = self.live()
        if files:
            self.commit([Remove(self.rng.choice(files).path)], op="remove")

    def delete(self) -> None:
        files = self.live()
        if files:
            paths = tuple(f.path for f in self.rng.sample(files, self.rng.randint(1, len(files))))
            self.commit([Tombstones("t", f"id = {self.serial}", paths)], op="delete")

    def register(self) -> None:
        self.serial += 1
        file = DataFile(f"elsewhere/{self.serial}.parquet", 9, 5, {"rows": 1})
        self.commit([Add("t", file, (("id", "BIGINT"),))], op="register")

    def drop(self) -> None:
        if "u" in self.handle.state.tables:
            self.commit([Drop("u")], op="drop")

    def checkpoint(self) -> None:
        if self.handle.head.revision:
            assert self.handle.checkpoint()


def history(seed: object, *, claims: bool, steps: int = 12, rows: bool = False) -> Historian:
    rng = random.Random(f"rebuild {seed}")
    made = Historian(SimStore(conditional_put=claims), rng, inlines=rows)
    made.append("t")
    for _ in range(steps):
        made.step()
    return made


def catalog_keys(store: SimStore, *, but_claims: bool = False) -> list[str]:
    """Everything but data files and markers; `but_claims`: and claims, the second copy of rows that stand in the
    catalog."""
    kept = (LAYOUT.data_prefix, LAYOUT.markers_prefix, *([LAYOUT.claims_prefix] if but_claims else []))
    return [key for key in store.keys(LAYOUT.root) if not key.startswith(kept)]


def without_last(made: Historian) -> Truth:
    """What the catalog is where nobody can prove its last commit: with its files, and without its removals."""
    revision = made.handle.head.revision
    before = (
        made.handle.history.at(revision - 1).state
        if revision > 1
        else CatalogState(LAYOUT.writer, LAYOUT.database)
    )
    removes = [a for a in made.last if isinstance(a, Remove)]
    adds = [a for a in made.last if isinstance(a, Add)]
    if removes and adds:  # a merge: its rows are in the files that it replaces
        return facts(before)
    found = dict(facts(before))
    for action in made.last:
        if isinstance(action, Define):
            found[action.table] = (action.spec, {}, {})
        elif isinstance(action, Add):
            spec, files, batches = found[action.table]
            live = (action.file._replace(created_ms=0), action.columns, revision, ())
            found[action.table] = (spec, {**files, action.file.path: live}, batches)
    for table, (spec, files, batches) in list(found.items()):
        now = made.truth[revision].get(table, (None, {}, {}))[2]
        found[table] = (spec, files, {**batches, **{b: r for b, r in now.items() if r == revision}})
    return found
