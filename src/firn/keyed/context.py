"""The context that every verb of a keyed table works on: the table as a value, and the engine above it.

`firn.database.database` gives every table its `Engines`; keyed tables themselves import no Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.journal.entries import Entries
from firn.journal.manifest import ManifestJournal, View
from firn.journal.manifest.pointer_store import BucketPointerStore, PointerStore
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.definition.settings import KeyedSettings
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.values import Values
from firn.keyed.merge.operators import Operator
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader, SstReaders
from firn.runner import Engines, InProcess

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class OpenWriter(Protocol):
    """A table's writer, as far as code that alters or compacts the table beside it needs it."""

    @property
    def table(self) -> KeyedContext: ...

    @property
    def epoch(self) -> int: ...

    @property
    def view(self) -> View: ...

    @property
    def crowded(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    def poll(self) -> None: ...

    def altered_by(self, alter: Callable[[], T]) -> T: ...


class _Shared:
    """The things that all handles on a table share in this process."""

    def __init__(self, bucket: Bucket, definition: KeyedDefinition) -> None:
        self.cache = BlockCache(definition.settings.block_cache)
        self.readers = SstReaders(bucket, self.cache)
        self.writers: WeakValueDictionary[int, OpenWriter] = WeakValueDictionary()
        """By the engines of the database that opened each."""


_known: WeakValueDictionary[tuple[str, int], _Shared] = WeakValueDictionary()
_known_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class KeyedContext:
    """A table by what its verbs need. `alterations` are those that a view has."""

    bucket: Bucket
    prefix: str
    created: KeyedDefinition
    """The definition as it stands in the table's own object."""
    engines: Engines = field(default_factory=InProcess)
    _: KW_ONLY
    options: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    alterations: Entries = field(default_factory=Entries)

    @property
    def name(self) -> str:
        return self.created.name

    @cached_property
    def definition(self) -> KeyedDefinition:
        """The definition that the table was created with, altered as a view has it."""
        return self.created.altered(self.alterations)

    @property
    def settings(self) -> KeyedSettings:
        return self.definition.settings

    @property
    def keys(self) -> Keys:
        return self.definition.keys

    @property
    def values(self) -> Values:
        return self.definition.values

    @property
    def operator(self) -> Operator | None:
        return self.definition.operator

    def now_ms(self) -> int:
        """The time by which entries expire."""
        return self.clock.now_ms()

    @cached_property
    def pointers(self) -> PointerStore:
        """Where the table's pointer lives."""
        url = self.settings.pointer_url
        if url is not None:
            from firn.journal.manifest.dynamo import open_pointers

            return open_pointers(url, self.options, generation=self.definition.generation)
        return BucketPointerStore(self.bucket, self.definition.layout(self.prefix).pointer_key)

    @cached_property
    def journal(self) -> ManifestJournal:
        """The table's manifests and L0 objects."""
        settings = self.settings
        return ManifestJournal(
            self.bucket,
            self.prefix,
            pointers=self.pointers,
            clock=self.clock,
            poll_max_s=settings.poll_max,
            l0_min_age_s=settings.l0_min_age,
            table=self.definition.id,
            generation=self.definition.generation,
        )

    def as_in(self, view: View) -> Self:
        """The table with the definition that a view has. No request."""
        wanted = view.manifest.definition
        if wanted is self.alterations or wanted == self.alterations:
            return self
        found: Self | None = self._altered.get(view.manifest.name)
        if found is None:
            # Most manifests only repeat what the one before says.
            found = next((each for each in self._altered.values() if each.alterations == wanted), None)
            found = replace(self, alterations=wanted) if found is None else found
            self._altered.clear()
            self._altered[view.manifest.name] = found
        return found

    @cached_property
    def _altered(self) -> dict[str, Self]:
        """The table as it is in the manifest that was asked for last."""
        return {}

    def beside(self, definition: KeyedDefinition, prefix: str) -> Self:
        """Another table of the same bucket."""
        return replace(self, prefix=prefix, created=definition, alterations=Entries())

    @cached_property
    def _shared(self) -> _Shared:
        # A store in memory may be a copy of another: the same id, and other objects.
        name = (self.definition.id, 0 if self.bucket.capabilities.shareable else id(self.bucket))
        with _known_lock:
            found = _known.get(name)
            if found is None:
                found = _Shared(self.bucket, self.definition)
                _known[name] = found
            return found

    def _opened(self, writer: OpenWriter) -> None:
        """This database's writer of the table is this one from now on. No request."""
        self._shared.writers[id(self.engines)] = writer

    def writer_here(self) -> OpenWriter | None:
        """The writer that this database has open and that isn't fenced, if there is one. No request."""
        kv = self._shared.writers.get(id(self.engines))
        return None if kv is None or kv.ended else kv

    @property
    def cache(self) -> BlockCache:
        """Decoded blocks; one cache a table and process, of `block_cache` bytes."""
        return self._shared.cache

    @property
    def ssts(self) -> SstReaders:
        """The readers of the table's SSTs and L0 objects, shared in the process."""
        return self._shared.readers

    def sst(self, key: str, size: int) -> SstReader:
        """The reader of one object by this definition of the table. No request."""
        return self._shared.readers(key, size, self.values)
