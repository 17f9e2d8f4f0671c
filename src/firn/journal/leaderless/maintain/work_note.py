"""A note that says who is at a piece of work that takes long, so that nobody else begins it too.

    {"firn": 1, "id": …, "holder": "host-1234", "lasts_ms": 600000}

It is advice: it may be lost, or expire under its holder, and then work is done twice, of which one is in vain. What
makes the work safe lies elsewhere. A note lasts from the moment when the store wrote it, by the store's clock. Notes
of lake tables stand at `TableLayout.work_key`, and a sweep deletes those that are a day old.
"""

from __future__ import annotations

import os
import secrets
import socket
from types import TracebackType

from firn.bucket.base import Blob, Bucket
from firn.bucket.conditional import create, swap
from firn.bucket.presence import find
from firn.errors import ObjectChangedError, ObjectExistsError
from firn.journal.sealed import seal, unseal

_FIELDS = frozenset(("firn", "id", "holder", "lasts_ms"))


class WorkNote:
    """A note of one's own. Get one by `take`; `release` it, or let it expire."""

    def __init__(self, bucket: Bucket, key: str, nonce: str, etag: str) -> None:
        self.bucket, self.key = bucket, key
        self._nonce, self._etag = nonce, etag

    def extend(self, seconds: float) -> bool:
        """Let it last so long from now on; False if it is another's by now. 1 PUT."""
        nonce = secrets.token_hex(16)
        try:
            self._etag = swap(self.bucket, self.key, _body(nonce, seconds), self._etag, nonce=nonce)
        except ObjectChangedError:
            return False
        self._nonce = nonce
        return True

    def release(self) -> None:
        """Take it away, if it is one's own still. 1 GET + 1 DELETE."""
        blob = find(self.bucket, self.key)
        if blob is not None and self._nonce.encode() in blob.data:
            self.bucket.delete(self.key)

    def __enter__(self) -> WorkNote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def take(bucket: Bucket, key: str, *, clock_key: str, seconds: float) -> WorkNote | None:
    """Leave a note that lasts so long; None while another's does.

    Args:
        clock_key: an object that tells the store's time by when it was written; anybody may write it.

    Cost: 1 PUT; where there is a note 1 GET, 1 PUT and 1 HEAD more, and 1 PUT to replace one that has expired. The
    store needs conditional puts.
    """
    nonce = secrets.token_hex(16)
    body = _body(nonce, seconds)
    try:
        return WorkNote(bucket, key, nonce, create(bucket, key, body, nonce=nonce))
    except ObjectExistsError:
        blob = find(bucket, key)
    try:
        if blob is None:  # released since
            return WorkNote(bucket, key, nonce, create(bucket, key, body, nonce=nonce))
        bucket.put(clock_key, secrets.token_bytes(16))
        if bucket.head(clock_key).modified_ms < _until_ms(blob):
            return None
        return WorkNote(bucket, key, nonce, swap(bucket, key, body, blob.info.etag, nonce=nonce))
    except (ObjectExistsError, ObjectChangedError):
        return None


def _body(nonce: str, seconds: float) -> bytes:
    holder = f"{socket.gethostname()}-{os.getpid()}"
    return seal({"firn": 1, "id": nonce, "holder": holder, "lasts_ms": int(seconds * 1000)})


def _until_ms(blob: Blob) -> int:
    """Until when a note lasts, by the store's clock; 0 for one that can't be read, as it is no more than advice."""
    try:
        return blob.info.modified_ms + int(unseal(blob.data, _FIELDS)["lasts_ms"])
    except (KeyError, TypeError, ValueError):
        return 0
