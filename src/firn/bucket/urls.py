"""URLs of buckets. They are taken literally, as Spark does: no percent-decoding, no query, no fragment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from firn.bucket.keys import check_key
from firn.errors import InvalidInputError

Kind = Literal["directory", "memory", "s3", "gcs", "azure"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_KINDS: dict[str, tuple[str, Kind]] = {
    "memory": ("memory", "memory"),
    "s3": ("s3", "s3"),
    "s3a": ("s3", "s3"),
    "gs": ("gs", "gcs"),
    "az": ("az", "azure"),
    "abfs": ("abfs", "azure"),
    "abfss": ("abfss", "azure"),
}
_CONTAINER_AT_ACCOUNT = re.compile(r"([^@]+)@([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net")
_BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL. `root` names the bucket alone; `name` is its name, or the directory's path."""

    kind: Kind
    root: str
    name: str
    prefix: str
    account: str | None = None


def parse_url(url: str | os.PathLike[str]) -> Address:
    """Take a URL or a directory's path apart; `InvalidInputError` if it is neither."""
    text = os.fspath(url) if isinstance(url, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        raise InvalidInputError(
            f"{url!r} is not a URL; name a directory, s3://…, gs://…, az://… or memory://"
        )
    if text.startswith("file:"):
        return _directory(_file_path(text))
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _directory(text)
    if match[1].lower() not in _KINDS:
        # Not the whole text: the part after an unknown scheme may hold a password.
        raise InvalidInputError(
            f"{match[1]}:// is not a scheme that Firn knows; use a directory's path, file://, s3://, gs://, "
            "az://, abfss:// or memory://"
        )
    scheme, kind = _KINDS[match[1].lower()]
    name, _, path = match[2].partition("/")
    prefix = path.strip("/")
    if prefix:
        check_key(prefix)
    account = None
    if kind == "azure" and (located := _CONTAINER_AT_ACCOUNT.fullmatch(name)):
        account = located[2]
    bucket = located[1] if account and located else name
    if (kind != "memory" or name) and not _BUCKET_NAME.fullmatch(bucket):
        raise InvalidInputError(
            f"a {scheme}:// URL names a bucket first, as in {scheme}://bucket/path; credentials belong into "
            "the environment or the options"
        )
    return Address(kind, f"{scheme}://{name}", bucket, prefix, account)


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The bucket's root and the prefix inside it.

    A directory is a root by itself; everywhere else the first part of the URL is.

    Raises:
        InvalidInputError: an unknown scheme, or a path with empty, `.` or `..` segments.

    Example:
        >>> split_url("s3://bucket/prod/eu/"), split_url("memory://")
        (('s3://bucket', 'prod/eu'), ('memory://', ''))
        >>> split_url("/srv/../srv/prod")
        ('file:///srv/prod', '')
    """
    address = parse_url(url)
    return address.root, address.prefix


def _directory(path: str) -> Address:
    if "\0" in path:
        raise InvalidInputError(f"{path!r} is not a path: it has a NUL in it")
    absolute = os.path.abspath(os.path.expanduser(path))
    return Address("directory", f"file://{absolute}", absolute, "")


def _file_path(text: str) -> str:
    rest = text.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInputError(f"{text} names the host {host!r}; a file URL is file:///absolute/path")
        rest = slash + path
    if not rest.startswith("/"):
        raise InvalidInputError(f"{text} has no absolute path; a file URL is file:///absolute/path")
    return rest
