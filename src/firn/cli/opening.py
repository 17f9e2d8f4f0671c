"""Opens the database that a command names, with its store options. Loads no parser of the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firn.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from firn.database.database import Database


def store_options(given: Sequence[str] | None) -> dict[str, Any]:
    """`name=value` pairs; numbers and switches by their look.

    >>> store_options(["endpoint=http://h:1/?a=b", "allow_http=true", "max_retries=3", "account_key=007"])
    {'endpoint': 'http://h:1/?a=b', 'allow_http': True, 'max_retries': 3, 'account_key': '007'}
    """
    return {name: typed(value) for name, value in pairs(given, "--option").items()}


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`name=value` strings as a mapping. The message shows no value: it may be a secret."""
    found = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"{option} {name!r}… isn't NAME=VALUE.")
        if name in found:
            raise InvalidInputError(f"{option} names {name!r} twice: give it once.")
        found[name] = value
    return found


def typed(value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if value.isdecimal() and str(int(value)) == value else value


def given_or_usual(url: str | None) -> str:
    """The database that was named, or the one in the environment."""
    found = url or os.environ.get("FIRN_DB")
    if not found:
        raise InvalidInputError("name a database: ./prod, s3://bucket/prod, or set FIRN_DB.")
    return found


def open_database(
    url: str,
    options: Sequence[str] | None = None,
    *,
    must_exist: bool = True,
    writer: str | None = None,
    strict: bool = False,
    spill: str | None = None,
    in_process: str | None = None,
    allow_files: Sequence[str] = (),
) -> Database:
    """Connect. A directory that isn't there is an error, unless something is about to be written."""
    from firn.bucket.urls import parse_url
    from firn.database.database import connect

    address = parse_url(url)
    if must_exist and address.kind == "directory" and not os.path.isdir(address.name):
        raise NotFoundError(f"there is no database at {url}: no such directory.")
    return connect(
        url,
        options=store_options(options),
        writer=writer,
        strict=strict,
        spill=spill,
        in_process=in_process,
        allow_files=allow_files,
    )
