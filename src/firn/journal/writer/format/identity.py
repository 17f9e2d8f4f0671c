"""A transaction's identity: its uuid, and the ticket by which data files name a transaction that is still to
come."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

PREFIX_DIGITS = 8  # frozen

_UUID = re.compile(r"[0-9a-f]{32}")


class Ticket(NamedTuple):
    """The transaction that is to come, as its data files name it before it is written; picklable.

    `previous` is the uuid of the head when it was begun, None at the empty start. A writer that names a uuid as
    `previous` has seen that transaction count.
    """

    revision: int
    uuid: str
    previous: str | None


def new_uuid() -> str:
    """128 random bits, as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def prefix_of(uuid: str) -> str:
    """The part of a uuid that names hold."""
    return uuid[:PREFIX_DIGITS]
