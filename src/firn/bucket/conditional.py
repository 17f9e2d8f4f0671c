"""Conditional puts whose refusal can be believed.

A lost reply looks like a conflict: the first attempt lands, its answer doesn't, and the retry is refused.
So each body carries a nonce, and a refused or unanswered put is settled by reading the object back.
"""

from __future__ import annotations

from firn.bucket.base import Blob, Bucket
from firn.bucket.presence import find
from firn.errors import (
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StoreError,
    UnsupportedError,
)


def check_conditional(bucket: Bucket) -> None:
    """Refuse conditional puts where an option has switched them off."""
    if not bucket.capabilities.conditional_put:
        raise UnsupportedError(
            f"{bucket.url}: conditional puts are switched off by the option conditional_put; without them only "
            "leaderless and writer tables work"
        )


def create(bucket: Bucket, key: str, data: bytes, *, nonce: str, retry_for: float | None = None) -> str:
    """put_if_absent that raises `ObjectExistsError` only if somebody else's object is there.

    Cost: 1 PUT; after a refusal or a lost answer also 1 GET.
    """
    try:
        return bucket.put_if_absent(key, data, retry_for=retry_for)
    except (ObjectExistsError, OutcomeUnknownError) as error:
        found = _read(bucket, key)
        if found is None:
            raise  # unanswered and not there (yet), or there and deleted since
        if nonce.encode() in found.data:
            return found.info.etag
        raise ObjectExistsError(f"{bucket.uri(key)} exists already, written by somebody else") from error


def swap(
    bucket: Bucket, key: str, data: bytes, etag: str, *, nonce: str, retry_for: float | None = None
) -> str:
    """put_if_match that raises `ObjectChangedError` only if the new body is not the one in place.

    Cost: 1 PUT; after a refusal or a lost answer also 1 GET.
    """
    try:
        return bucket.put_if_match(key, data, etag, retry_for=retry_for)
    except (ObjectChangedError, OutcomeUnknownError) as error:
        found = _read(bucket, key)
        if found is not None and nonce.encode() in found.data:
            return found.info.etag
        if found is not None and found.info.etag == etag:
            raise  # unanswered, and the old version is still there: it may yet land
        raise ObjectChangedError(f"{bucket.uri(key)} was changed or deleted by somebody else") from error


def _read(bucket: Bucket, key: str) -> Blob | None:
    try:
        return find(bucket, key)
    except StoreError as error:
        # A refusal that can't be looked into may be the echo of one's own success.
        raise OutcomeUnknownError(
            f"{bucket.uri(key)} was written conditionally without a clear answer, and reading it back failed: "
            f"{error}"
        ) from error
