"""Large documents: put before their commit under names of their own, which end in a checksum. Pure."""

from __future__ import annotations

from typing import Final

import google_crc32c

from firn.errors import CorruptObjectError

STAGED_S: Final = 3.5 * 86_400
"""After so long a staged document isn't committed any more: half of a sweep's age for what nothing refers to."""


def staged_ref(txid: str, number: int, body: bytes) -> str:
    """The name below `_firn/bodies/` of a transaction's staged document.

    >>> staged_ref("5fe1", 0, b'{"n":1}')
    '5fe1.0.a2e6d0bf'
    """
    return f"{txid}.{number}.{checksum(body)}"


def checked(ref: str, body: bytes, where: str) -> bytes:
    """A staged document that was read; `where` is the object's full name, for messages.

    Raises:
        CorruptObjectError: it isn't what was put.
    """
    if ref.rpartition(".")[2] != checksum(body):
        raise CorruptObjectError(
            f"{where} isn't the document that was put there: its checksum is {checksum(body)}. Copy the object back "
            "from a backup, or write the row anew."
        )
    return body


def checksum(body: bytes) -> str:
    """CRC-32C, in 8 hexadecimal digits."""
    return f"{google_crc32c.value(body):08x}"
