"""Checks of a table: predicates that no new row may fail, asked before anything is committed.

They bind those who know them. A row on which one is null, or can't be evaluated, doesn't fail it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Predicates over the columns that rows have, by name, each with the text that people know, and the table's
    name for messages. Picklable."""

    table: str = ""
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @staticmethod
    def of(definition: LakeDefinition, known: ColumnTypes, columns: ColumnTypes) -> Checks:
        """A table's, for rows of these columns: others of the `known` ones have their default, or are null."""
        own, defaults = set(map(fold, columns)), definition.naming.defaults
        texts = {}
        for name, text in definition.checks.items():
            lacking = {
                each: (kind, defaults.get(each)) for each, kind in known.items() if fold(each) not in own
            }
            texts[name] = with_values(text, lacking), text
        return Checks(definition.name, texts)

    def ask(self, rows: pa.Table, columns: ColumnTypes) -> None:
        """Raise `CheckFailedError` for the first row that fails one."""
        for name, (sql, text) in self.texts.items() if rows.num_rows else ():
            failing = row_mask(rows, f"TRY(({sql}) IS FALSE)", types=columns)
            if (at := pc.index(failing, True).as_py()) < 0:
                continue
            row = rows.slice(at, 1).to_pylist()[0]
            raise CheckFailedError.of(
                f"{self.table}: the row {row} fails the check {name!r}: {text}. Nothing was changed. Mend the row; "
                f"or take the check back, by alter(checks={{{name!r}: None}}).",
                row,
            )


NO_CHECKS = Checks()
