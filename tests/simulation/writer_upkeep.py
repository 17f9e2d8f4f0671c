"""Commits with real data files, for what prunes, collects and repairs: each adds a file that is named by its number
to one table, and appends, merges or removes files of another, or rows that stand in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from firn.bucket.base import Bucket
from firn.errors import OutcomeUnknownError, SnapshotTooOldError, StoreUnavailableError
from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Action, Add, CatalogTransaction, Define, Remove, Tombstones
from firn.journal.writer.format.footers import read_pairs
from firn.journal.writer.format.identity import Ticket, prefix_of
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.metadata import read_metadata
from firn.journal.writer.format.rows import stored
from firn.journal.writer.format.state import CatalogHead, CatalogState, LiveFile, follow
from firn.journal.writer.history.listing import list_settled
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.testing import SimStore
from simulation.writer_catalog import COLUMNS, LAYOUT, TABLE, handle_of, history_of
from simulation.writer_model import Model

OTHER = "s"
_SCHEMA = pa.schema([pa.field("id", pa.int64())])


def put_file(
    bucket: Bucket, ticket: Ticket, table: str, *, number: int | None = None, replaces: Sequence[str] = ()
) -> DataFile:
    """A data file that says what it replaces."""
    namer = LAYOUT.namer(table, ticket)
    path = (
        namer("")
        if number is None
        else f"{LAYOUT.data_prefix}{table}/{prefix_of(ticket.uuid)}{number:024}.parquet"
    )
    body = body_of(namer.metadata("", dict(COLUMNS), extra={"rows": 1}, replaces=replaces))
    try:
        bucket.put(path, body)
    except OutcomeUnknownError as error:
        raise StoreUnavailableError(f"{path}: no answer, and nothing was committed") from error
    return DataFile(path, len(body), 0, {"rows": 1})


def body_of(pairs: dict[str, str]) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA) as writer:
        writer.add_key_value_metadata(pairs)
    return bytes(sink.getvalue())


class Change:
    """A commit under way: its files are written, and it can be committed later, when others have been."""

    def __init__(self, bucket: Bucket, handle: Handle, number: int | None) -> None:
        self.bucket, self.handle = bucket, handle
        self.ticket = handle.begin()
        self.actions: list[Action] = [
            Define(table, b"spec") for table in (TABLE, OTHER) if table not in handle.state.tables
        ]
        self.replaced: tuple[str, ...] = ()
        if number is not None:
            self.actions.append(Add(TABLE, put_file(bucket, self.ticket, TABLE, number=number), COLUMNS))

    def append(self) -> Change:
        self.actions.append(Add(OTHER, put_file(self.bucket, self.ticket, OTHER), COLUMNS))
        return self

    def inline(self) -> Change:
        """Rows, which a merge later writes into a file."""
        path = LAYOUT.rows_path(OTHER, self.ticket.revision)
        rows = InlinedRows.of(dict(COLUMNS), [[1, 2]], 2)
        file = stored(DataFile("", 0, 0, {"rows": 2, "inlined": rows}), path, 0, path)
        self.actions.append(Add(OTHER, file, COLUMNS))
        return self

    def merge(self) -> Change:
        self.replaced = tuple(live(self.handle.state))
        merged = put_file(self.bucket, self.ticket, OTHER, replaces=self.replaced)
        self.actions += [Add(OTHER, merged, COLUMNS), *map(Remove, self.replaced)]
        return self

    def remove(self) -> Change:
        self.actions += [Remove(path) for path in list(live(self.handle.state))[:1]]
        return self

    def soft_delete(self) -> Change:
        paths = tuple(live(self.handle.state))[:1]
        self.actions += [Tombstones(OTHER, "id > 1", paths)] if paths else []
        return self

    def commit(self) -> CatalogHead:
        return self.handle.commit(self.actions, op="change", ticket=self.ticket, replaced=self.replaced)


KINDS: tuple[Callable[[Change], Change], ...] = (
    Change.append,
    Change.append,
    Change.merge,
    Change.remove,
    Change.soft_delete,
)
WITH_ROWS = (*KINDS, Change.inline, Change.inline, Change.inline)


def live(state: CatalogState) -> Iterator[str]:
    """The other table's files, and its rows that stand in the catalog."""
    table = state.tables.get(OTHER)
    return iter(()) if table is None else iter(table.files)


def paths_of(state: CatalogState) -> set[str]:
    """The data files."""
    return {path for table in state.tables.values() for path in table.files} - rows_of(state)


def rows_of(state: CatalogState) -> set[str]:
    """The paths of rows that stand in the catalog."""
    return {path for path, _ in inlined(state)}


def inlined(state: CatalogState) -> Iterator[tuple[str, LiveFile]]:
    """The rows that stand in the catalog, by their paths."""
    every = (entry for table in state.tables.values() for entry in table.files.items())
    return ((path, live) for path, live in every if live.file.inlined is not None)


def readable(bucket: Bucket) -> Iterator[tuple[int, CatalogState]]:
    """Every revision that can be read, newest first."""
    history = history_of(bucket)
    newest = history.load()
    if newest.head.revision:
        yield newest.head.revision, newest.state
    for revision in range(newest.head.revision - 1, 0, -1):
        try:
            yield revision, history.at(revision).state
        except SnapshotTooOldError:
            return


def retained(bucket: Bucket) -> dict[int, set[str]]:
    """The files of every revision that can be read."""
    return {revision: paths_of(state) for revision, state in retained_states(bucket).items()}


def retained_states(bucket: Bucket) -> dict[int, CatalogState]:
    """Every revision that can be read: the oldest, and then by what each transaction does."""
    history = history_of(bucket)
    history.load()
    nodes = history.counting(list_settled(bucket, LAYOUT, 0))
    found: dict[int, CatalogState] = {}
    state: CatalogState | None = None
    for revision, _ in nodes:
        if state is None:
            try:
                state = history.at(revision).state
            except SnapshotTooOldError:
                continue
            following = history.transactions(revision)
        else:
            state = follow(state, following.pop(0))
        found[revision] = state
    return found


def second_copies(store: SimStore) -> set[str]:
    """The rows that claims or markers hold, too."""
    bucket = store.bucket()
    found: set[str] = set()
    for key, data in store.contents(LAYOUT.claims_prefix).items():
        found |= _rows_in(decode_transaction(data, where=key))
    for key, data in store.contents(LAYOUT.markers_prefix).items():
        found |= decode_marker(LAYOUT, key, read_pairs(bucket, key, len(data)), where=key).rows
    return found


def _rows_in(transaction: CatalogTransaction) -> set[str]:
    files = (action.file for action in transaction.actions if isinstance(action, Add))
    return {file.path for file in files if file.inlined is not None}


def data_of(store: SimStore) -> set[str]:
    return set(store.keys(LAYOUT.data_prefix))


def told(store: SimStore) -> set[str]:
    """What data files and markers say isn't live any more, if all else is gone."""
    bucket = store.bucket()
    gone: set[str] = set()
    for key, data in store.contents(LAYOUT.data_prefix).items():
        record = read_metadata(read_pairs(bucket, key, len(data)), where=key)
        assert record is not None
        gone.update(record.replaces)
    for key, data in store.contents(LAYOUT.markers_prefix).items():
        gone.update(
            _removed(decode_marker(LAYOUT, key, read_pairs(bucket, key, len(data)), where=key).transaction)
        )
    for key, data in store.contents(LAYOUT.claims_prefix).items():
        claim = decode_transaction(data, where=key)
        gone.update(path for path in _removed(claim) if LAYOUT.is_rows(path))
    return gone


def _removed(transaction: CatalogTransaction) -> Iterable[str]:
    return (action.path for action in transaction.actions if isinstance(action, Remove))


def lay_files(store: SimStore) -> None:
    """Data files for commits that were made without."""
    for key, data in store.contents(LAYOUT.transactions_prefix).items():
        if key.endswith(".transaction"):
            for action in decode_transaction(data, where=key).actions:
                if isinstance(action, Add) and action.file.inlined is None:
                    store.write(action.file.path, b"12345678")


# -- what has to be true at any time


def note_removed(model: Model, store: SimStore) -> None:
    """Remember which files were removed for sure, before the transactions that say so are pruned."""
    history = history_of(store.copy().bucket())
    head = history.load().head.revision
    for transaction in history.transactions():
        if transaction.revision < head:
            model.removed.update(_removed(transaction))


def check_whole(model: Model, store: SimStore, before: SimStore | None = None) -> None:
    """No retained revision has lost a file, and no branch one that it had `before`; what is left of files that were
    removed is told by data files and markers alone."""
    there = data_of(store)
    for revision, paths in retained(store.copy().bucket()).items():
        assert paths <= there, f"revision {revision} has lost {sorted(paths - there)}"
    if before is not None:
        gone = data_of(before) - there
        for key, data in store.contents(LAYOUT.transactions_prefix).items() if gone else ():
            if key in before and key.endswith(".transaction"):
                transaction = decode_transaction(data, where=key)
                added = {a.file.path for a in transaction.actions if isinstance(a, Add)}
                assert not added & gone, f"{key} has lost {sorted(added & gone)}"
    check_copies(store)
    there |= second_copies(store)
    untold = (model.removed & there) - told(store) if model.removed & there else set()
    assert not untold, f"rebuild would bring back {sorted(untold)}"


def check_copies(store: SimStore) -> None:
    """The rows of no retained revision stand in its transaction and checkpoints alone."""
    copies = second_copies(store)
    for revision, state in retained_states(store.copy().bucket()).items():
        alone = rows_of(state) - copies
        assert not alone, f"the rows {sorted(alone)} of revision {revision} have no second copy"


def check_swept(model: Model, store: SimStore) -> None:
    """Once nobody is there, pruning and collecting leave what can be read, and what waits for it."""
    bucket = store.bucket()
    for _ in range(3):
        handle = handle_of(bucket, bucket.clock)
        Change(bucket, handle, None).append().commit()
    note_removed(model, store)
    prune(history_of(bucket), older_than_ms=0)
    report = collect(history_of(bucket), orphan_age_ms=0)
    check_whole(model, store)
    assert data_of(store) == set().union(*retained(bucket).values(), report.waiting)
