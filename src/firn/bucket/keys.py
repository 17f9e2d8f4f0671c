"""Which keys are allowed: the same in every store, so that a database can move from one to another."""

from __future__ import annotations

import re

from firn.errors import InvalidInputError

RESERVED = ".firn-tmp"
"""First segment that no key may have: a directory keeps its temporary files and locks there."""

_REFUSED = re.compile(
    r"[\x00-\x1f\x7f\\]"
)  # control characters, and the backslash: Azure makes a slash of it
_MAX_KEY_BYTES = 1024  # S3, GCS and Azure agree on it
_MAX_SEGMENT_BYTES = 255  # POSIX file systems


def key_below(prefix: str, *parts: str) -> str:
    """A key below a prefix, which may be empty; with an empty last part, the prefix of all keys there.

    >>> key_below("prod", "t", "x"), key_below("", "t", "x"), key_below("prod", ""), key_below("", "")
    ('prod/t/x', 't/x', 'prod/', '')
    """
    return "/".join((prefix, *parts) if prefix else parts)


def check_key(key: str) -> str:
    """The key itself, or `InvalidInputError` that says what is wrong with it."""
    _check(key, key.split("/") if isinstance(key, str) else [])
    return key


def check_prefix(prefix: str) -> str:
    """Like `check_key` for a string prefix of keys: it may be empty and may end anywhere."""
    segments = prefix.split("/") if isinstance(prefix, str) else []
    if segments and segments[-1] in ("", ".", ".."):
        segments.pop()
    _check(prefix, segments)
    return prefix


def check_directory(prefix: str) -> None:
    """Like `check_prefix` for a whole directory: the prefix is empty or ends in a slash."""
    check_prefix(prefix)
    if prefix and not prefix.endswith("/"):
        raise InvalidInputError(f"the prefix {prefix!r} of list_dirs is neither '' nor ends in '/'")


def _check(key: str, segments: list[str]) -> None:
    if not isinstance(key, str):
        raise InvalidInputError(f"{key!r} is not an object key; keys are strings")
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"the key {key!r} is not valid Unicode") from None
    if _REFUSED.search(key):
        raise InvalidInputError(f"the key {key!r} has a control character or a backslash in it")
    if len(encoded) > _MAX_KEY_BYTES:
        raise InvalidInputError(f"the key {key[:60]!r}… is longer than {_MAX_KEY_BYTES} bytes")
    for segment in segments:
        if segment in ("", ".", ".."):
            raise InvalidInputError(
                f"the key {key!r} has the segment {segment!r}; none may be empty, . or .."
            )
        if len(segment) > 63 and len(segment.encode()) > _MAX_SEGMENT_BYTES:
            raise InvalidInputError(
                f"the key {key[:60]!r}… has a segment longer than {_MAX_SEGMENT_BYTES} bytes"
            )
    if segments and segments[0] == RESERVED:
        raise InvalidInputError(f"the key {key!r} is reserved; choose another name than {RESERVED}")
