"""Checks of a table: predicates that no new row may fail, asked before anything is committed.

They bind those who know them. A row on which one is null, or can't be evaluated, doesn't fail it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.arrow.engine import row_mask
from firn.deferred import DeferredModule
from firn.errors import CheckFailedError
from firn.journal.model import ColumnTypes
from firn.lake.definition.definition import LakeDefinition
from firn.names import fold
from firn.predicate.predicate import with_values

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")


@dataclass(frozen=True)
class Checks:
    """Predicates by name, the table's columns with what rows have that lack them, and its name for messages.
    Picklable."""

    table: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)

    @staticmethod
    def of(definition: LakeDefinition, known: ColumnTypes) -> Checks:
        """Those of a table that has these columns."""
        defaults = definition.naming.defaults
        return Checks(
            definition.name,
            definition.checks,
            {name: (kind, defaults.get(name)) for name, kind in known.items()},
        )

    def ask(self, rows: pa.Table, columns: ColumnTypes) -> None:
        """Raise `CheckFailedError` for the first row that fails one. Rows have `columns`; in the others they have
        the default, or null."""
        if not (self.texts and rows.num_rows):
            return
        own = set(map(fold, columns))
        lacking = tuple((name, value) for name, value in self.known.items() if fold(name) not in own)
        for name, text in self.texts.items():
            failing = row_mask(rows, f"TRY(({_asked(text, lacking)}) IS FALSE)", types=columns)
            if (at := pc.index(failing, True).as_py()) < 0:
                continue
            row = rows.slice(at, 1).to_pylist()[0]
            raise CheckFailedError.of(
                f"{self.table}: the row {row} fails the check {name!r}: {text}. Nothing was changed. Mend the row; "
                f"or take the check back, by alter(checks={{{name!r}: None}}).",
                row,
            )


@lru_cache(maxsize=256)
def _asked(text: str, lacking: tuple[tuple[str, tuple[str, str | None]], ...]) -> str:
    """The predicate over rows that lack these columns."""
    return with_values(text, dict(lacking))


NO_CHECKS = Checks()
