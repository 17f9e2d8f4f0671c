"""Reads: a tree at one moment, and the verbs that writers, readers and snapshots have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arguments import checked
from firn.arrow.bloom import hash64
from firn.arrow.pyvalues import shown
from firn.concurrency.parallel import in_flight
from firn.errors import InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.keyed.context import KeyedContext
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.entries import MERGE, PUT, Entry
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.values import Values
from firn.keyed.merge.memtable import Memtable
from firn.keyed.merge.older_memtable import OlderMemtable
from firn.keyed.merge.versions import merge_key, merge_runs
from firn.keyed.read.sources import Sources

if TYPE_CHECKING:
    from typing_extensions import Self


class KeyedScan:
    """The live entries of a range, by key. Iterating gives (key, value) pairs; nothing is read before.

    Made by `scan` and `scan_prefix` of a writer, a reader or a snapshot; each use reads anew, at the same moment.
    """

    def __init__(self, merged: Callable[[], Iterator[pa.RecordBatch]], keys: Keys, values: Values) -> None:
        self._merged, self._keys, self._values = merged, keys, values
        self.schema: pa.Schema = pa.schema([*keys.schema, *values.schema])
        """The columns of `to_batches` and `to_arrow`."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        keys, values = self._keys, self._values
        for batch in self._merged():
            stored = values.from_columns(batch.columns[len(ENTRY_COLUMNS) :])
            yield from zip(
                keys.decode_list(batch.column(0)),
                map(values.public, stored) if values.typed else stored,
                strict=True,
            )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches: `key`, or the key's columns, then `value`, or the value's columns."""
        for batch in self._merged():
            keys = self._keys.decode_array(batch.column(0))
            columns = [*keys, *batch.columns[len(ENTRY_COLUMNS) :]]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.put(b"DTW", b"66", durable=False)
            ...     kv.scan().to_arrow().to_pylist()
            [{'key': b'DTW', 'value': b'66'}]
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)


class Tree:
    """One moment of a table: memtables newest first, then what is in the bucket.

    `upto` is the newest `seq` that counts, None for all that the memtables get. `operator` and `public`, which makes
    a value of a stored one, are those of the table as it was then.
    """

    __slots__ = ("operator", "public", "sources", "tables", "upto")

    def __init__(
        self, tables: tuple[Memtable | OlderMemtable, ...], sources: Sources, upto: int | None = None
    ) -> None:
        self.tables, self.sources, self.upto = tables, sources, upto
        table = sources.table
        self.operator = table.operator
        self.public = table.values.public if table.values.typed else None

    def fixed(self) -> Tree:
        """The same without what is put from now on."""
        if self.upto is not None or not self.tables:
            return self
        return Tree(self.tables, self.sources, self.tables[0].last_seq)

    def find(self, key: bytes) -> list[Entry]:
        """A key's versions, newest first, as far as a reader needs them. ≤ 1 GET a sorted run once indices are
        here."""
        found: list[Entry] = []
        upto = self.upto
        for table in self.tables:
            entries = table.get(key, upto)
            if entries:
                if entries[-1].kind != MERGE:
                    return found + entries if found else entries
                found += entries
        sources = self.sources
        hashed = hash64(key)
        for reader in sources.l0_with(hashed) if sources.l0 else ():
            entries = reader.versions(key)
            if entries:
                # The newest tells nearly always; an SST gives older versions than a reader needs, too.
                if entries[0].kind != MERGE or any(entry.kind != MERGE for entry in entries):
                    return found + entries if found else entries
                found += entries
        for run in sources.runs:
            sst = run.of(key)
            if sst is None:
                continue
            entries = sst.get(key, hashed)
            if entries:
                if entries[0].kind != MERGE or any(entry.kind != MERGE for entry in entries):
                    return found + entries if found else entries
                found += entries
        return found

    def find_many(self, keys: Sequence[bytes]) -> dict[bytes, list[Entry]]:
        """`find` of sorted keys, each asked of older runs only while it is open; absent ones are left out."""
        found: dict[bytes, list[Entry]] = {}
        open_keys = list(keys)
        for table in self.tables:
            open_keys = _absorb(found, open_keys, {key: table.get(key, self.upto) for key in open_keys})
        if open_keys:
            self.sources.load()
        for reader in self.sources.l0:
            if not open_keys:
                return found
            open_keys = _absorb(found, open_keys, reader.get_many(open_keys))
        for run in self.sources.runs:
            if not open_keys:
                return found
            answers: dict[bytes, list[Entry]] = {}
            for part in in_flight(lambda part: part[0].get_many(part[1]), run.split(open_keys)):
                answers.update(part)
            open_keys = _absorb(found, open_keys, answers)
        return found

    def runs(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> list[Iterator[pa.RecordBatch]]:
        """Iterators over each run's part of a range, newest run first."""
        memory = [t.scan(start, end, reverse=reverse, upto_seq=self.upto) for t in self.tables]
        return [*memory, *self.sources.scans(start, end, reverse=reverse)]


@checked
class Reads(ABC):
    """The verbs that writers, readers and snapshots have in common: get, multi_get, scan, scan_prefix."""

    def __init__(self, table: KeyedContext) -> None:
        self.table = table
        self._encode = table.keys.encode
        self._now_ms = table.now_ms

    @abstractmethod
    def _tree(self, durable: bool) -> Tree:
        """The moment to read at; raises whatever keeps from reading."""

    @abstractmethod
    def _newer(self, tree: Tree, gone: ObjectNotFoundError) -> Tree:
        """Another tree, where an object of this one was gone (rule 9); raises where there is none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get(self, key: Any, *, durable: bool = False) -> Any:
        """The value of a key, bytes or a dict of the columns; None where there is none.

        Args:
            key: bytes; of a typed key a tuple, or the lone value if it has one column.
            durable: leave out what this process has put and no crash-proof flush has yet.

        Raises:
            FencedError: another writer has opened the table since.

        Cost: none if the memtable has it. Else at most 1 GET a sorted run whose block isn't in the cache; the
        first read also 1 GET an L0 object, in parallel.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.put(b"DTW", b"66")
            ...     kv.get(b"DTW"), kv.get(b"HNL")
            (b'66', None)
        """
        tree = self._tree(durable)
        encoded = self._encode(key)
        while True:
            try:
                found = tree.find(encoded)
                break
            except ObjectNotFoundError as gone:
                tree = self._newer(tree, gone)
        if not found:
            return None
        newest = found[0]
        if newest.kind != PUT or newest.expire_at is not None:
            merged = merge_key(found, tree.operator, self._now_ms())
            if merged is None:
                return None
            newest = merged
        return newest.value if tree.public is None else tree.public(newest.value)

    def multi_get(self, keys: Sequence[Any], *, durable: bool = False) -> list[Any]:
        """The values of many keys, in their order, as `get` gives them; all at one moment.

        Cost: that of `get`, with the GETs of a run in flight together.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.put(b"DTW", b"66")
            ...     kv.multi_get([b"HNL", b"DTW"])
            [None, b'66']
        """
        if isinstance(keys, str | bytes):
            raise InvalidInputError(
                f"multi_get takes a list of keys, not {shown(keys)}; for a single one there is get."
            )
        tree = self._tree(durable).fixed()
        encoded = [self._encode(key) for key in keys]
        wanted = sorted(set(encoded))
        while True:
            try:
                found = tree.find_many(wanted)
                break
            except ObjectNotFoundError as gone:
                tree = self._newer(tree, gone)
        now_ms = self._now_ms()
        values: dict[bytes, Any] = {}
        for key, versions in found.items():
            entry = merge_key(versions, tree.operator, now_ms)
            if entry is not None:
                values[key] = entry.value if tree.public is None else tree.public(entry.value)
        return [values.get(key) for key in encoded]

    def scan(
        self, start: Any = None, end: Any = None, *, reverse: bool = False, durable: bool = False
    ) -> KeyedScan:
        """The live entries with start ≤ key < end, in the order of keys or backwards. Nothing is read yet.

        Args:
            start: as a key, or of a typed key its first columns only; None begins with the first key.
            end: the first key that is left out; None ends with the last.

        Cost: 1 GET a few MB of each sorted run in the range; the SSTs outside it cost nothing.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     for key in (b"ATL", b"DTW", b"HNL"):
            ...         kv.put(key, b"1", durable=False)
            ...     list(kv.scan(b"B", reverse=True)), kv.scan().to_arrow().num_rows
            ([(b'HNL', b'1'), (b'DTW', b'1')], 3)
        """
        keys = self.table.keys
        return self._scan(keys.bound(start), keys.bound(end), reverse, durable)

    def scan_prefix(self, prefix: Any, *, reverse: bool = False, durable: bool = False) -> KeyedScan:
        """The live entries whose key begins with `prefix`; of a typed key, with these first columns.

        Example:
            >>> import firn
            >>> table = firn.connect("memory://").create_table(
            ...     "people", kind="keyed", key={"state": "VARCHAR", "year": "BIGINT"}, schema={"people": "BIGINT"}
            ... )
            >>> with table.open() as kv:
            ...     kv.put(("MI", 2001), {"people": 9}, durable=False)
            ...     kv.put(("OH", 2001), {"people": 11}, durable=False)
            ...     list(kv.scan_prefix(("MI",)))
            [(('MI', 2001), {'people': 9})]
        """
        start, end = self.table.keys.prefix(prefix)
        return self._scan(start, end, reverse, durable)

    def _scan(self, start: bytes | None, end: bytes | None, reverse: bool, durable: bool) -> KeyedScan:
        tree = self._tree(durable).fixed()
        values, operator, now_ms = tree.sources.table.values, tree.operator, self._now_ms()

        def batches() -> Iterator[pa.RecordBatch]:
            at, begun = tree, False
            while True:
                try:
                    runs = at.runs(start, end, reverse=reverse)
                    for batch in merge_runs(
                        runs,
                        values=values,
                        operator=operator,
                        now_ms=now_ms,
                        reverse=reverse,
                        upto_seq=at.upto,
                    ):
                        begun = True
                        yield batch
                    return
                except ObjectNotFoundError as gone:
                    if begun:  # what follows would be of another moment
                        raise SnapshotTooOldError(
                            f"{self.table.name} was compacted and swept while it was scanned ({gone}). Scan again, "
                            "or scan a checkpoint, which sweep spares."
                        ) from gone
                    at = self._newer(at, gone)
                    if not at.sources.table.values.same(values):
                        raise SnapshotTooOldError(
                            f"{self.table.name} was altered while it was scanned ({gone}). Scan again."
                        ) from gone

        return KeyedScan(batches, self.table.keys, values)


def _absorb(
    found: dict[bytes, list[Entry]], asked: Sequence[bytes], answers: Mapping[bytes, list[Entry]]
) -> list[bytes]:
    """Add a run's answers to those of newer runs; the keys that older runs have to be asked for."""
    still = []
    for key in asked:
        entries = answers.get(key)
        if entries:
            found.setdefault(key, []).extend(entries)
            if any(entry.kind != MERGE for entry in entries):
                continue
        still.append(key)
    return still
