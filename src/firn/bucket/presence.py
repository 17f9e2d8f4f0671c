"""Whether an object exists, and the object if it does."""

from __future__ import annotations

from firn.bucket.base import Blob, Bucket
from firn.errors import ObjectNotFoundError


def is_there(bucket: Bucket, key: str) -> bool:
    """Whether there is such an object, at this moment. 1 HEAD.

    Example:
        >>> from firn.bucket import open_bucket
        >>> bucket = open_bucket("memory://")
        >>> _ = bucket.put("a", b"")
        >>> is_there(bucket, "a"), is_there(bucket, "b")
        (True, False)
    """
    try:
        bucket.head(key)
    except ObjectNotFoundError:
        return False
    return True


def find(bucket: Bucket, key: str) -> Blob | None:
    """The object, None if there is none. 1 GET."""
    try:
        return bucket.get(key)
    except ObjectNotFoundError:
        return None
