"""Which tables of a database a keeper keeps: `Database.keep`, `firn keep`. Any number of processes do so at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from firn.database.tables import Tables
from firn.errors import FirnError
from firn.keeping import AFTER_ERROR_S, Turns, log, rest_after

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
    _next: float | None = None
    """When it looks for tables again."""

    def turns(self) -> Iterable[Turns]:
        """Their turns. Now and then it looks for tables that came or went, and for new ones of an old name: what
        `Database.tables` costs. An error of the first look is raised, others are logged.

        Raises:
            TableNotFoundError: there is no table of a name that was given.
        """
        now = self.monotonic()
        if self._next is None or now >= self._next:
            self._next = now + self._look_again(first=self._next is None)
        # Tables that share something have one turn.
        return {turns.name: turns for turns in self._turns.values() if turns is not None}.values()

    def _look_again(self, *, first: bool) -> float:
        """Look for tables; in how many seconds to do so again."""
        try:
            self._look(first)
        except FirnError as error:
            if first:
                raise
            log.warning("looking for tables to keep failed, trying again in %g s: %s", AFTER_ERROR_S, error)
            return AFTER_ERROR_S
        return LOOK_FOR_TABLES_S

    def _look(self, first: bool) -> None:
        names = self.tables.names(None) if self.names is None else self.names
        dropped = {name for name, turns in self._turns.items() if turns is not None and turns.gone}
        for gone in (self._turns.keys() - set(names)) | dropped:
            del self._turns[gone]
        for name in names:
            if name not in self._turns:
                self._begin(name, must_be=first and self.names is not None)

    def _begin(self, name: str, must_be: bool) -> None:
        try:
            table = self.tables.find(name)
            named = self.names is not None
            self._turns[name] = self.tables.kinds[table.kind].keeper(table, named=named)
        except FirnError as error:  # of that table alone
            if must_be:
                raise
            rest_after(error, name)
