"""How far a record table has been copied into another table: one small object a target, replaced by If-Match.

Before anything is appended it says which commits come next, and when they are there, that they are. So whoever comes
after a crash, or beside another, copies the same commits under the same name, and the target takes them once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.bucket.presence import find
from firn.journal.envelope import Envelopes, number, optional_number, text

_KIND: Final = "copy"
_ENVELOPES: Final = Envelopes(
    "a record table",
    {
        _KIND: "Copy the object back from a backup; or delete it and the target table, and copy all anew.",
    },
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a copy has come.

    `id` is the copy's, and `target` the id of the table's definition into which it goes. All up to commit `since` is
    there, nothing yet for None; where `upto` is another, the commits up to it may be.
    """

    id: str
    target: str
    since: int | None
    upto: int

    @staticmethod
    def begin(target: str, upto: int) -> Cursor:
        return Cursor(secrets.token_hex(16), target, None, upto)

    @property
    def settled(self) -> bool:
        return self.since == self.upto

    @property
    def batch_id(self) -> str:
        """The name under which the target takes the commits after `since`, up to `upto`."""
        return f"{self.id}/{'' if self.since is None else self.since}-{self.upto}"

    def done(self) -> Cursor:
        """When they are there."""
        return Cursor(self.id, self.target, self.upto, self.upto)

    def next(self, upto: int) -> Cursor:
        """When the commits up to `upto` are to follow."""
        return Cursor(self.id, self.target, self.since, upto)


@dataclass(frozen=True, slots=True)
class StoredCursor:
    """A cursor as it was read or written, and the ETag by which it may be replaced."""

    cursor: Cursor
    etag: str


def encode_cursor(cursor: Cursor, nonce: str) -> bytes:
    """The object's bytes; `nonce` tells this writing of it from all others."""
    return _ENVELOPES.encode(
        _KIND,
        {
            "id": cursor.id,
            "target": cursor.target,
            "from": cursor.since,
            "to": cursor.upto,
            "nonce": nonce,
        },
    )


def decode_cursor(data: bytes, *, where: str) -> Cursor:
    """The cursor; `where` is the object's full name, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
        UnsupportedError: it needs a newer Firn.
    """
    return _ENVELOPES.decode(_KIND, data, where, _cursor)


def _cursor(raw: Mapping[str, Any]) -> Cursor:
    found = Cursor(text(raw["id"]), text(raw["target"]), optional_number(raw["from"]), number(raw["to"]))
    if found.since is not None and found.since > found.upto:
        raise ValueError(f"it goes from commit {found.since} back to {found.upto}")
    return found


def read_cursor(bucket: Bucket, key: str) -> StoredCursor | None:
    """1 GET; None where there is none."""
    blob = find(bucket, key)
    if blob is None:
        return None
    return StoredCursor(decode_cursor(blob.data, where=bucket.uri(key)), blob.info.etag)


def write_cursor(bucket: Bucket, key: str, cursor: Cursor, over: StoredCursor | None) -> StoredCursor:
    """Put a cursor where none was, or in place of one that was read. 1 PUT.

    Raises:
        ObjectExistsError, ObjectChangedError: somebody else has written it since.
        OutcomeUnknownError: no answer came; to copy again does no harm.
    """
    nonce = secrets.token_hex(8)
    data = encode_cursor(cursor, nonce)
    if over is None:
        return StoredCursor(cursor, create(bucket, key, data, nonce=nonce))
    return StoredCursor(cursor, swap(bucket, key, data, over.etag, nonce=nonce))
