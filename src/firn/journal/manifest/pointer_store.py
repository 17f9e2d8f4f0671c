"""Where the pointer lives: an interface, and the bucket's implementation. `dynamo` has another.

Only the pointer is ever compare-and-swapped, so only the pointer can live in a key-value service; all else is
objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.bucket.presence import find
from firn.errors import StoreUnavailableError
from firn.journal.generations import generation_of
from firn.journal.manifest.layout import METADATA_DIR, ManifestLayout


@dataclass(frozen=True, slots=True)
class StoredPointer:
    """The pointer's bytes, the version they belong to, and when they were written by the store's own clock
    (Unix ms), None where the store doesn't tell."""

    data: bytes
    etag: str
    modified_ms: int | None


class PointerStore(Protocol):
    """One object with compare-and-swap. Reads are strongly consistent.

    `nonce` is a text that stands in `data` and in no other body; by it a refusal that is the echo of one's own
    success is told from a real one. `OutcomeUnknownError` means that the body isn't in place, but may come to be.
    """

    @property
    def where(self) -> str:
        """The pointer's full name, for messages."""
        ...

    def get(self) -> StoredPointer | None:
        """None if there is none. 1 request."""
        ...

    def create(self, data: bytes, *, nonce: str) -> str:
        """The etag; `ObjectExistsError` if somebody else's is there. 1 request, 2 after a refusal."""
        ...

    def swap(self, data: bytes, etag: str, *, nonce: str) -> str:
        """Replace exactly the version `etag`; the new etag. `ObjectChangedError` if `data` isn't in place and `etag`
        neither. 1 request, 2 after a refusal."""
        ...

    def delete(self) -> None:
        """Remove it; a missing one is fine. 1 request."""
        ...


class BucketPointerStore:
    """The pointer as an object of the table's own bucket."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket, self._key = bucket, key

    @property
    def where(self) -> str:
        return self._bucket.uri(self._key)

    def get(self) -> StoredPointer | None:
        blob = find(self._bucket, self._key)
        if blob is None:
            return None
        if len(blob.data) != blob.info.size:
            raise StoreUnavailableError(f"{self.where}: the answer is cut short; retry later")
        return StoredPointer(blob.data, blob.info.etag, blob.info.modified_ms)

    def create(self, data: bytes, *, nonce: str) -> str:
        return create(self._bucket, self._key, data, nonce=nonce)

    def swap(self, data: bytes, etag: str, *, nonce: str) -> str:
        return swap(self._bucket, self._key, data, etag, nonce=nonce)

    def delete(self) -> None:
        self._bucket.delete(self._key)


def has_pointer(bucket: Bucket, prefix: str) -> bool:
    """Whether a keyed table has its pointer in this directory, of whatever generation it is. 1 LIST, and 1 GET for
    each that may have."""
    found = (generation_of(name, METADATA_DIR) for name in bucket.list_dirs(f"{prefix}/"))
    keys = [ManifestLayout(prefix, each).pointer_key for each in found if each is not None]
    return any(blob is not None for blob in bucket.get_many(keys))
