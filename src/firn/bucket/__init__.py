"""The only code that touches an object store.

Code that reads or writes objects may enter: stores, retries, meanings of errors. The content of objects stays out.
Start with `base` (the protocol), then `conditional` (refusals that can be believed), `retry` and `failures` (what
is known after an error), `store` (obstore) and `local` (a directory).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from firn.bucket.base import Blob, Bucket, BytesLike, Capabilities, Counters, Listing, ObjectInfo
from firn.bucket.local import LocalBucket
from firn.bucket.store import ObjectStoreBucket
from firn.bucket.urls import parse_url, split_url

__all__ = [
    "Blob",
    "Bucket",
    "BytesLike",
    "Capabilities",
    "Counters",
    "Listing",
    "LocalBucket",
    "ObjectInfo",
    "ObjectStoreBucket",
    "open_bucket",
    "split_url",
]


def open_bucket(url: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Bucket:
    """The bucket at a root URL. No request is made.

    Args:
        url: a directory's path or `file://` URL, `s3://bucket`, `gs://bucket`, `az://container`,
            `abfss://container@account.dfs.core.windows.net`, `memory://` (a new store) or `memory://name`
            (one store a name and process). For a path inside a bucket, see `split_url`.
        options: obstore's names of store options (`aws_access_key_id`, `endpoint`, `region`,
            `account_name`, …) and client options (`allow_http`, `timeout`, …), and Firn's own:
            `conditional_put` ("disabled" for a store that hasn't any), `max_retries` (9), `retry_timeout`
            ("2m"). Credentials come from the usual environment otherwise.

    Raises:
        InvalidInputError: an unknown scheme or option, or a path inside a bucket.

    Example:
        >>> bucket = open_bucket("memory://")
        >>> etag = bucket.put("greetings/hello", b"world")
        >>> bucket.get("greetings/hello").data, bucket.list_dirs("")
        (b'world', ['greetings'])
        >>> bucket.counters.requests
        3
    """
    address = parse_url(url)
    if address.kind == "directory":
        return LocalBucket(address.name, options)
    return ObjectStoreBucket(url, options)
