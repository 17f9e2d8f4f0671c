"""Which tables of a database a keeper keeps: `Database.keep`, `firn keep`. Any number of processes do so at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from firn.database.tables import Tables
from firn.errors import FirnError
from firn.keeping import Turns, rest_after

LOOK_FOR_TABLES_S = 300.0
"""How often a keeper looks for tables that came or went."""


@dataclass
class KeptTables:
    """The tables of a database that are to be kept.

    Args:
        names: only these. Without it, all that the connection may keep unasked; see `TableKind.keeper`.
    """

    tables: Tables
    names: Sequence[str] | None = None
    monotonic: Callable[[], float] = time.monotonic
    _turns: dict[str, Turns | None] = field(default_factory=dict)
    """By table; None for one that isn't kept."""
    _looked: float | None = None

    def turns(self) -> Iterable[Turns]:
        """Their turns. Now and then it looks for tables that came or went: what `Database.tables` costs.

        Raises:
            TableNotFoundError: there is no table of a name that was given.
        """
        now = self.monotonic()
        if self._looked is None or (self.names is None and now - self._looked >= LOOK_FOR_TABLES_S):
            self._look()
            self._looked = now
        # Tables that share something have one turn.
        return {turns.name: turns for turns in self._turns.values() if turns is not None}.values()

    def _look(self) -> None:
        names = self.tables.names(None) if self.names is None else self.names
        for gone in self._turns.keys() - set(names):
            del self._turns[gone]
        for name in names:
            if name not in self._turns:
                self._begin(name)

    def _begin(self, name: str) -> None:
        try:
            table = self.tables.find(name)
            named = self.names is not None
            self._turns[name] = self.tables.kinds[table.kind].keeper(table, named=named)
        except FirnError as error:  # of that table alone
            if self.names is not None:
                raise
            rest_after(error, name)
