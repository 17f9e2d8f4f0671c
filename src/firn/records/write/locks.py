"""Advisory locks (rule 25): they make conflicts early, not impossible; a commit is judged all the same."""

from __future__ import annotations

import math
import secrets
from contextlib import suppress
from typing import Final

import orjson

from firn.bucket.conditional import swap
from firn.errors import (
    CorruptObjectError,
    FirnError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectLockedError,
    OutcomeUnknownError,
)
from firn.records.names.layout import RecordLayout
from firn.records.objects.store import RecordStore

_FREE: Final = ""


class Locks:
    """The locks of one transaction. One that isn't released ends by itself, when the transaction can do nothing more:
    at `ends_s` of the clock of its process."""

    def __init__(self, store: RecordStore, txid: str, *, ends_s: float) -> None:
        self._store, self._txid, self._ends_s = store, txid, ends_s
        self._held: dict[str, str] = {}

    def take(self, layout: RecordLayout, id: str) -> None:
        """Take a row's lock. 1 PUT where it never was locked; else PUT, GET, PUT; while somebody has it, PUT and
        HEAD for the store's time.

        Raises:
            ObjectLockedError: another transaction has it.
        """
        table, key, backoff = layout.table, layout.lock(id), self._store.backoff()
        while key not in self._held:
            try:
                self._held[key] = self._taken(table, id, key)
            except OutcomeUnknownError as error:
                if not backoff.wait():
                    raise self._locked(table, id, key) from error

    def _taken(self, table: str, id: str, key: str) -> str:
        """The lock's ETag."""
        nonce = secrets.token_hex(16)
        body = self._body(self._txid, nonce, self._ends_s - self._store.clock.monotonic())
        try:
            return self._store.bucket.put_if_absent(key, body)
        except ObjectExistsError as error:
            blob = self._store.log.store.find(key)
            if blob is None:
                raise self._locked(table, id, key) from error
        owner, lease_ms = _decoded(blob.data, self._store.bucket.uri(key))
        # Whose clock is fast or slow doesn't count: both times are the store's.
        if owner == self._txid:
            return blob.info.etag
        if owner != _FREE and self._store.log.store.now_ms() - blob.info.modified_ms <= lease_ms:
            raise self._locked(table, id, key)
        try:
            return swap(self._store.bucket, key, body, blob.info.etag, nonce=nonce)
        except ObjectChangedError as error:
            raise self._locked(table, id, key) from error

    def release(self) -> None:
        """Give all back. 1 PUT each; one that fails ends by itself."""
        for key in list(self._held):
            self._release(key)

    def release_row(self, layout: RecordLayout, id: str) -> None:
        """Give one back."""
        self._release(layout.lock(id))

    def _release(self, key: str) -> None:
        nonce = secrets.token_hex(16)
        with suppress(FirnError):
            swap(self._store.bucket, key, self._body(_FREE, nonce, 0.0), self._held.pop(key), nonce=nonce)

    def _body(self, owner: str, nonce: str, lease_s: float) -> bytes:
        lease_ms = max(0, math.ceil(lease_s * 1000))
        return orjson.dumps({"firn": 1, "owner": owner, "lease_ms": lease_ms, "nonce": nonce})

    def _locked(self, table: str, id: str, key: str) -> ObjectLockedError:
        return ObjectLockedError(
            f"{self._store.bucket.uri(key)}: another transaction has the lock of row {id!r} of {table!r}; wait for "
            "it, or go on with another row"
        )


def _decoded(data: bytes, where: str) -> tuple[str, int]:
    """The owner of a lock, and its lease in milliseconds."""
    try:
        raw = orjson.loads(data)
        return str(raw["owner"]), int(raw["lease_ms"])
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptObjectError(
            f"{where} is not a lock of Firn ({error!r}). Delete it: it protects nothing that commits don't."
        ) from error
