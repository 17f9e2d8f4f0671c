"""A row of a table with isolation="row": one document or tombstone, and the nonces of its last versions. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.journal.envelope import Envelopes, number, text
from firn.journal.sequence.codec import canonical
from firn.records.names.layout import check_row_name

NONCES: Final = 8
"""How many versions a row tells the nonces of: a writer whose answer was lost finds its own among them."""

_NONCE_BYTES: Final = 5
_KIND: Final = "lone row"
_ENVELOPES: Final = Envelopes(
    "a record table",
    {
        _KIND: "Copy the object back from a backup, or let the row go: `firn records repair TABLE ID --forget`."
    },
)


@dataclass(frozen=True, slots=True)
class SingleVersion:
    """A version of a row: its number, from 1 on, its nonce, and those of the versions before it, newest first.

    `etag` is the store's, "" where that isn't known, which no version has.
    """

    number: int
    nonces: tuple[str, ...]
    etag: str = ""

    def next(self) -> SingleVersion:
        """The version that replaces this one."""
        return SingleVersion(self.number + 1, (secrets.token_hex(_NONCE_BYTES), *self.nonces[: NONCES - 1]))

    def became_of(self, made: SingleVersion) -> bool | None:
        """Whether `made` was written, if the row is now at this version; None if it was too long ago to tell."""
        ago = self.number - made.number
        if ago < 0:
            return False
        return self.nonces[ago] == made.nonces[0] if ago < len(self.nonces) else None

    def to_text(self) -> str:
        """The ETag that users see: all that the writer of the next version must know.

        >>> SingleVersion.from_text(SingleVersion(7, ("b3", "a2"), '"5d41"').to_text())
        SingleVersion(number=7, nonces=('b3', 'a2'), etag='"5d41"')
        """
        return f"{self.number}:{'.'.join(self.nonces)}:{self.etag}"

    @staticmethod
    def from_text(etag: str) -> SingleVersion:
        """Raises `InvalidInputError` for what `to_text` never gives."""
        try:
            count, nonces, stored = etag.split(":", 2)
            return SingleVersion(int(count), tuple(nonces.split(".")), stored)
        except (ValueError, AttributeError):
            raise InvalidInputError(
                f"{shown(etag)} is no ETag of a table with isolation='row': give that of a row that was read, or "
                "that a write gave back."
            ) from None


NEVER: Final = SingleVersion(0, ())
"""The version of a row that never was."""


@dataclass(frozen=True, slots=True)
class LoneRow:
    """A row's object; `body` is None for a tombstone."""

    id: str
    version: SingleVersion
    body: bytes | None


def encode_row(row: LoneRow) -> bytes:
    """The object's bytes, which no other version's are: the nonce is in them."""
    return _ENVELOPES.encode(
        _KIND,
        {
            "id": row.id,
            "number": row.version.number,
            "nonces": list(row.version.nonces),
            "body": None if row.body is None else orjson.Fragment(row.body),
        },
    )


def decode_row(data: bytes, etag: str, *, key: str, where: str) -> LoneRow:
    """The row of an object's key; `etag` is the store's, and `where` the full name, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes there, but damaged, or another row's.
        UnsupportedError: it needs a newer Firn.
    """

    def read(raw: Mapping[str, Any]) -> LoneRow:
        body = raw["body"]
        if body is not None and not isinstance(body, dict):
            raise ValueError("its body isn't a JSON object")
        nonces = tuple(text(nonce) for nonce in raw["nonces"])
        if not 1 <= len(nonces) <= NONCES:
            raise ValueError(f"it has {len(nonces)} nonces")
        version = SingleVersion(number(raw["number"], least=1), nonces, etag)
        encoded = None if body is None else canonical(body)
        row = LoneRow(text(raw["id"]), version, encoded)
        check_row_name(key, row.id)
        return row

    return _ENVELOPES.decode(_KIND, data, where, read)
