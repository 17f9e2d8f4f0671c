"""Answers of Firn and of DuckDB to the same query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

import firn
from firn.errors import FirnError
from firn.journal.typenames import canonical


class Answers:
    """What both say of a query; rows as DuckDB's texts, in any order, without the sign of zero."""

    def __init__(self, db: firn.Database, duck: Any) -> None:
        self.db, self.duck, self.texts = db, duck, duckdb.connect()
        self.texts.execute("SET TimeZone = 'UTC'")
        self.compared = 0

    def check(self, query: str, said: str = "") -> None:
        """That both say the same. Where DuckDB fails, by a value that can't be cast, Firn may have left it out."""
        try:
            relation = self.duck.sql(query)
            kinds = [canonical(str(kind)) for kind in relation.types]
            expected = self._rows(relation.to_arrow_table())
        except duckdb.Error:
            return
        try:
            result = self.db.sql(query)
            found = self._rows(result.to_arrow())
        except FirnError as error:
            raise AssertionError(f"{error}\n{query}\n{said}") from error
        assert list(result.columns.values()) == kinds, f"{query}\n{said}"
        assert found == expected, f"{query}\n{said}"
        self.compared += 1

    def _rows(self, rows: pa.Table) -> Counter[tuple[str, ...]]:
        self.texts.register(
            "rows", pa.table({f"c{number}": column for number, column in enumerate(rows.columns)})
        )
        shown = self.texts.execute("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM rows").fetchall()
        return Counter(tuple(str(value).replace("-0.0", "0.0") for value in row) for row in shown)
