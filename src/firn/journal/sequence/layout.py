"""Names of the objects of a database's commit log. They sort by number, which LISTs and collection build on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from firn.bucket.keys import key_below
from firn.errors import InvalidInputError

DIGITS: Final = 20  # frozen
LARGEST: Final = 2**63 - 1

_NUMBER = re.compile(rf"[0-9]{{{DIGITS}}}")


@dataclass(frozen=True, slots=True)
class SequenceLayout:
    """Keys of one database's log. `prefix` is the database's key prefix without a trailing slash, "" for the root.

    Example:
        >>> layout = SequenceLayout("prod")
        >>> layout.record_key(42)
        'prod/_commits/00000000000000000042'
        >>> layout.parse_record(layout.record_key(42))
        42
        >>> layout.pack_key(1), layout.body_key("5fe1.0")
        ('prod/_firn/packs/00000000000000000001', 'prod/_firn/bodies/5fe1.0')
    """

    prefix: str

    @property
    def records_prefix(self) -> str:
        return key_below(self.prefix, "_commits", "")

    @property
    def packs_prefix(self) -> str:
        return key_below(self.prefix, "_firn", "packs", "")

    @property
    def bodies_prefix(self) -> str:
        return key_below(self.prefix, "_firn", "bodies", "")

    @property
    def horizon_key(self) -> str:
        return key_below(self.prefix, "_firn", "horizon")

    @property
    def clock_key(self) -> str:
        return key_below(self.prefix, "_firn", "clock")

    @property
    def sweep_note_key(self) -> str:
        """The note that says who has swept of late."""
        return key_below(self.prefix, "_firn", "work", "sweep")

    def record_key(self, number: int) -> str:
        return self.records_prefix + _digits(number)

    def pack_key(self, first: int) -> str:
        """The pack whose first record is this one."""
        return self.packs_prefix + _digits(first)

    def body_key(self, ref: str) -> str:
        return self.bodies_prefix + ref

    def parse_record(self, key: str) -> int | None:
        return _parse(key, self.records_prefix)

    def parse_pack(self, key: str) -> int | None:
        return _parse(key, self.packs_prefix)


def _parse(key: str, prefix: str) -> int | None:
    if not key.startswith(prefix) or not _NUMBER.fullmatch(key[len(prefix) :]):
        return None
    return int(key[len(prefix) :])


def _digits(number: int) -> str:
    if not 1 <= number <= LARGEST:
        raise InvalidInputError(f"{number} is not the number of a commit: 1 to {LARGEST} are")
    return f"{number:0{DIGITS}d}"
