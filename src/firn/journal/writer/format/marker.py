"""Markers hold the parts of a transaction that the metadata of its own files can't, for rebuild and collect (rule
26).

A marker is a Parquet file without rows, beside the data, written before its transaction. It holds the whole
transaction, but for files that were begun for it only their paths, and their clocks on tables with a key: they
describe themselves. An append has none. The marker that ends a rebuild holds the whole state, too: the evidence of
the rebuild may be gone at the next one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from firn.errors import CorruptObjectError
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import (
    Action,
    Add,
    CatalogTransaction,
    Define,
    Drop,
    Remove,
    Tombstones,
)
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import (
    decode_checkpoint,
    decode_transaction,
    encode_checkpoint,
    encode_transaction,
)
from firn.journal.writer.format.state import CatalogState, clock_at

KEY: Final = "firn-transaction"  # frozen
STATE_KEY: Final = "firn-checkpoint"  # frozen
_SCHEMA = pa.schema([pa.field("marker", pa.string())])


@dataclass(frozen=True)
class Marker:
    """A transaction as its marker has it. `own` are the paths of the files that were begun for it and describe
    themselves; their `Add`s hold nothing but the path. `state` is the catalog after a rebuild."""

    transaction: CatalogTransaction
    own: frozenset[str]
    state: CatalogState | None = None

    @property
    def revision(self) -> int:
        return self.transaction.revision

    @property
    def uuid(self) -> str:
        return self.transaction.uuid

    @property
    def rows(self) -> frozenset[str]:
        """The paths of the rows that stand in it."""
        files = [action.file for action in self.transaction.actions if isinstance(action, Add)]
        if self.state is not None:
            files += [live.file for table in self.state.tables.values() for live in table.files.values()]
        return frozenset(file.path for file in files if file.inlined is not None)

    def remainder(
        self, layout: WriterLayout, state: CatalogState, existing: Collection[str]
    ) -> Marker | None:
        """The parts of it that rebuild still needs once its transaction was pruned; None for nothing. `state` is
        the catalog at its head, `existing` the keys below `data/`.

        It is needed as long as a file exists that it names (one outside of the catalog is never deleted), or a
        file of a table that it drops; as long as a table has the definition that it gave; and as long as the
        catalog remembers a batch of it. The partitions' paths and the predicates of files that are gone aren't: they
        may hold the values of rows that were to be erased. Nor are such files in the state after a rebuild. Rows that
        stand in it count as a file that exists if their path is among `existing`.
        """

        def there(path: str) -> bool:
            return path in existing or layout.is_elsewhere(path)

        actions: list[Action] = []
        may_tell_values = False
        for action in self.transaction.actions:
            if isinstance(action, Tombstones):
                files = tuple(filter(there, action.files))
                actions += [replace(action, files=files)] if files else []
                may_tell_values = may_tell_values or len(files) < len(action.files)
            elif not isinstance(action, Add | Remove) or there(_path_of(action)):
                actions.append(action)
            else:
                place = layout.parse_data(_path_of(action))
                may_tell_values = may_tell_values or place is None or bool(place.partition)
        left = None if self.state is None else _with_files(self.state, there)
        needed = (
            (left is not None and any(table.files for table in left.tables.values()))
            or any(isinstance(action, Add | Remove | Tombstones) for action in actions)
            or self._defines(state)
            or self._drops(layout, existing)
            or any(
                t in state.tables and b in state.tables[t].batches for t, b in self.transaction.commit.batches
            )
        )
        if not needed:
            return None
        if may_tell_values:
            return replace(self, transaction=replace(self.transaction, actions=tuple(actions)), state=left)
        return replace(self, state=left)

    def _defines(self, state: CatalogState) -> bool:
        defined = [action for action in self.transaction.actions if isinstance(action, Define)]
        return any(a.table in state.tables and state.tables[a.table].spec == a.spec for a in defined)

    def _drops(self, layout: WriterLayout, existing: Collection[str]) -> bool:
        dropped = {action.table for action in self.transaction.actions if isinstance(action, Drop)}
        return bool(dropped) and any(_table_of(layout, key) in dropped for key in existing)


def _with_files(state: CatalogState, there: Callable[[str], bool]) -> CatalogState:
    """The state with no more than the files that are there."""
    return replace(
        state,
        tables={
            name: replace(table, files={path: live for path, live in table.files.items() if there(path)})
            for name, table in state.tables.items()
        },
    )


def _path_of(action: Add | Remove) -> str:
    return action.file.path if isinstance(action, Add) else action.path


def _table_of(layout: WriterLayout, key: str) -> str | None:
    found = layout.parse_data(key)
    return None if found is None else found.table


def first_clock(revision: int, writer: str) -> str:
    """The clock of a commit's first file, on tables with a key; see `firn.journal.model.with_clocks`."""
    return f"{clock_at(revision, writer)}#{0:06d}"


def is_due(layout: WriterLayout, transaction: CatalogTransaction, replaced: Collection[str]) -> bool:
    """Whether the transaction's files alone don't tell it. `replaced` are the paths that its own files name as
    replaced by them."""
    adds = ordered = 0
    first = first_clock(transaction.revision, transaction.writer)
    for action in transaction.actions:
        if isinstance(action, Add) and action.file.inlined is not None:
            if not transaction.commit.claimed:
                return True  # else the claim holds the rows
            adds += 1
        elif isinstance(action, Add):
            if not layout.is_stamped(action.file.path, transaction.uuid):
                return True
            adds += 1
            # Its place in the order of commits. A file itself knows only that of its revision's first one.
            clock = (action.file.extra or {}).get("clock")
            ordered += 0 if clock is None else 1 if clock == first else 2
        elif not (isinstance(action, Remove) and action.path in replaced):
            return True
    return not adds or ordered > 1 or bool(transaction.commit.batches)


def encode_marker(
    layout: WriterLayout, transaction: CatalogTransaction, state: CatalogState | None = None
) -> bytes:
    """The object's bytes. `state`: of the catalog at the transaction that ends a rebuild."""
    actions = tuple(_reduced(layout, transaction.uuid, action) for action in transaction.actions)
    body = encode_transaction(replace(transaction, actions=actions))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA) as writer:
        pairs = {KEY: base64.b64encode(body).decode()}
        if state is not None:
            pairs[STATE_KEY] = base64.b64encode(encode_checkpoint(state)).decode()
        writer.add_key_value_metadata(pairs)
    return bytes(sink.getvalue())


def decode_marker(
    layout: WriterLayout, key: str, pairs: Mapping[bytes, bytes] | None, *, where: str
) -> Marker:
    """A marker by its key and the key-value metadata of its footer; `where` is its URL, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes, or of another name or catalog.
        UnsupportedError: a newer format.
    """
    value, after = (pairs or {}).get(KEY.encode()), (pairs or {}).get(STATE_KEY.encode())
    try:
        if value is None:
            raise ValueError(f"its footer has no key {KEY!r}")
        body = base64.b64decode(value, validate=True)
        whole = None if after is None else base64.b64decode(after, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _corrupt(where, str(error)) from error
    try:
        transaction = decode_transaction(body, where=where)
        state = None if whole is None else decode_checkpoint(whole, where=where)
    except CorruptObjectError as error:
        raise _corrupt(where, str(error)) from error
    if layout.marker_key(transaction.revision, transaction.uuid) != key:
        raise _corrupt(where, f"it is of revision {transaction.revision}, {prefix_of(transaction.uuid)}")
    if (transaction.writer, transaction.database) != (layout.writer, layout.database):
        raise _corrupt(
            where, f"it is of the database {transaction.database!r} of the writer {transaction.writer!r}"
        )
    if state is not None and state.head.uuid != transaction.uuid:
        raise _corrupt(where, f"its state is of the transaction {state.head.uuid}")
    paths = (action.file.path for action in transaction.actions if isinstance(action, Add))
    own = frozenset(path for path in paths if layout.is_stamped(path, transaction.uuid))
    return Marker(transaction, own, state)


def _reduced(layout: WriterLayout, uuid: str, action: Action) -> Action:
    if isinstance(action, Add) and layout.is_stamped(action.file.path, uuid):
        clock = (action.file.extra or {}).get("clock")
        return Add(
            action.table, DataFile(action.file.path, 0, 0, None if clock is None else {"clock": clock})
        )
    return action


def _corrupt(where: str, why: str) -> CorruptObjectError:
    return CorruptObjectError(
        f"{where} is not a marker of this catalog: {why}. Copy it back from a backup, or leave it: only a rebuild "
        "and a collection of garbage read it."
    )
