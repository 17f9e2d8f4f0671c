"""`<table>/_firn/table.json`: the object that says that there is a table, and what it was created with.

Whoever creates it has the table's name, whatever kind of table it is; what stands in it is the kind's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.errors import ObjectChangedError, ObjectExistsError, ObjectNotFoundError, TableExistsError

T = TypeVar("T")


def definition_key(prefix: str) -> str:
    """The object's key, of the table whose keys begin with `prefix`."""
    return f"{prefix}/_firn/table.json"


def read_object(bucket: Bucket, prefix: str, decode: Callable[[bytes, str], T]) -> T | None:
    """What `decode` makes of its bytes and its name for messages; None where there is none. 1 GET."""
    key = definition_key(prefix)
    try:
        data = bucket.get(key).data
    except ObjectNotFoundError:
        return None
    return decode(data, bucket.uri(key))


def create_object(
    bucket: Bucket, prefix: str, name: str, data: bytes, *, nonce: str, over: str | None = None
) -> None:
    """Write it where none is: 1 conditional PUT, or GET + PUT where the store has none.

    Args:
        nonce: a text that stands in `data` and in no other table's definition.
        over: the ETag of the definition that it replaces: that of a table which was dropped, and keeps its own.

    Raises:
        TableExistsError: there is a table.
    """
    key = definition_key(prefix)
    try:
        if over is not None:
            swap(bucket, key, data, over, nonce=nonce)
        elif bucket.capabilities.conditional_put:
            create(bucket, key, data, nonce=nonce)
        elif bucket.get_many([key])[0] is None:
            bucket.put(key, data)
        else:
            raise ObjectExistsError(key)
    except (ObjectExistsError, ObjectChangedError):
        raise TableExistsError(
            f"{bucket.uri(prefix)} is a table already. Open it with db.table({name!r}), or choose another name."
        ) from None
