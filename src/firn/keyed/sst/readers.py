"""The readers of a table's SSTs and L0 objects, shared in the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from weakref import WeakValueDictionary

from firn.bucket.base import Bucket
from firn.concurrency.parallel import in_flight
from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader


class SstReaders:
    """One reader an object, shared by all of a table's readers in this process, with its index and its filter."""

    def __init__(self, bucket: Bucket, cache: BlockCache, values: Values) -> None:
        self.cache = cache
        self._bucket, self._values = bucket, values
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, SstReader] = WeakValueDictionary()

    def __call__(self, key: str, size: int) -> SstReader:
        """The reader of an object. No request."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = SstReader(self._bucket, key, size, self.cache, values=self._values)
                self._known[key] = found
            return found

    def load(self, readers: Sequence[SstReader]) -> bool:
        """See that all have their index: one after the other would take a round trip each. False if some can't be
        had: those fail the reads that need them, and no others."""
        return all(in_flight(_has_index, [reader for reader in readers if not reader.is_open]))


def _has_index(reader: SstReader) -> bool:
    try:
        return reader.index is not None
    except (CorruptObjectError, ObjectNotFoundError):
        return False
