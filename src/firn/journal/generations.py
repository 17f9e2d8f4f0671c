"""Which generation of its name a table is: how many tables of the name were dropped before it, of whatever kind.

What a process had under way for a dropped table lands under the old generation's names, where the next table never
looks. A definition tells, also that of a dropped table (`firn.database.tombstones`); `_firn/generations/<table>` of
the database remembers the count where none does.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from firn.journal.backoff import Backoff


@dataclass(frozen=True)
class Generations:
    """The counts of a database's names."""

    bucket: Bucket
    prefix: str
    clock: Clock

    def of(self, name: str) -> int:
        """The generation of the next table of the name, where no definition tells. 1 GET."""
        return self._read(name)[0]

    def after(self, name: str, left: int | None) -> int:
        """The generation of the next table of the name, the last one's being `left`; None where no definition tells.
        1 GET, but after a table that was the second or a later one: earlier versions counted here."""
        return left + 1 if left else max(self.of(name), 0 if left is None else 1)

    def raise_to(self, name: str, wanted: int) -> None:
        """Remember that the next table of the name is of this generation, or a later one. 1 GET and 1 PUT."""
        backoff = Backoff(self.clock)
        while (mark := self._read(name))[0] < wanted:
            data, key = orjson.dumps({"firn": 1, "generation": wanted}), self.key(name)
            try:
                if not self.bucket.capabilities.conditional_put:
                    self.bucket.put(key, data)
                elif mark[1] is None:
                    self.bucket.put_if_absent(key, data)
                else:
                    self.bucket.put_if_match(key, data, mark[1])
            except (ObjectChangedError, ObjectExistsError, OutcomeUnknownError) as error:
                if not backoff.wait():
                    uri = self.bucket.uri(key_below(self.prefix, name))
                    raise ConflictError(f"others change {uri}; retry") from error

    def key(self, name: str) -> str:
        return key_below(self.prefix, "_firn", "generations", name)

    def _read(self, name: str) -> tuple[int, str | None]:
        """The count, and the object's ETag."""
        key = self.key(name)
        try:
            blob = self.bucket.get(key)
        except ObjectNotFoundError:
            return 0, None
        try:
            return int(orjson.loads(blob.data)["generation"]), blob.info.etag
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptObjectError(
                f"{self.bucket.uri(key)} is not what Firn writes ({error!r}). Choose another name for the table."
            ) from error
