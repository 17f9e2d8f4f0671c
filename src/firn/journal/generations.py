"""Which generation of its name a table is: how many tables of the name were dropped before it, of whatever kind.

Requests that a process had under way for a dropped table land under the old generation's names, where the next
table never looks: directories of the second table of a name on end in `~` and its generation. A definition has the
generation, also that of a dropped table (`firn.database.kinds.definitions`). Earlier versions kept the count of some
kinds in `_firn/generations/<table>` of the database, which is read where a definition may not tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.errors import CorruptObjectError, ObjectNotFoundError


def directory(name: str, generation: int) -> str:
    """A table's directory.

    >>> directory("_log", 0), directory("_log", 2)
    ('_log', '_log~2')
    """
    return f"{name}~{generation}" if generation else name


def generation_of(found: str, name: str) -> int | None:
    """The generation of the table that has a directory of this name; None if it is another one.

    >>> generation_of("_log", "_log"), generation_of("_log~2", "_log"), generation_of("_data", "_log")
    (0, 2, None)
    """
    base, tilde, number = found.partition("~")
    if base != name or (tilde and not number.isdecimal()):
        return None
    return int(number or 0)


@dataclass(frozen=True)
class Generations:
    """The counts of a database's names."""

    bucket: Bucket
    prefix: str

    def of(self, name: str) -> int:
        """The generation of the next table of the name, where no definition tells. 1 GET."""
        key = self.key(name)
        try:
            return int(orjson.loads(self.bucket.get(key).data)["generation"])
        except ObjectNotFoundError:
            return 0
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptObjectError(
                f"{self.bucket.uri(key)} is not what Firn writes ({error!r}). Choose another name for the table."
            ) from error

    def after(self, name: str, left: int | None) -> int:
        """The generation of the next table of the name, the last one's being `left`; None where no definition tells.
        1 GET, but after a table that was the second or a later one: earlier versions counted here."""
        return left + 1 if left else max(self.of(name), 0 if left is None else 1)

    def key(self, name: str) -> str:
        return key_below(self.prefix, "_firn", "generations", name)
