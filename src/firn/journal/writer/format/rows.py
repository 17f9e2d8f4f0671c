"""Rows that stand in a catalog: a live file whose body is in the transaction, and in checkpoints. See `Rows` on the
format's page."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson

from firn.errors import CorruptObjectError
from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Columns


class CatalogRows(InlinedRows):
    """Rows as an object has them, decoded when somebody asks for values; equal where the bytes are."""

    body: bytes

    def __init__(self, columns: Columns, body: bytes, count: int, where: str = "") -> None:
        vars(self).update(columns=dict(columns), body=body, count=count, where=where)

    @cached_property
    def values(self) -> Any:
        """Raises `CorruptObjectError` for a body that no Firn writes."""
        try:
            found = InlinedRows.from_json(orjson.loads(self.body), self.columns, self.where)
            if found.count != self.count:
                raise ValueError(f"it has {found.count} rows, and its file says {self.count}")
        except ValueError as error:
            raise CorruptObjectError(
                f"{self.where} has rows that can't be decoded: {error}. Copy the object back from a backup."
            ) from error
        return found.values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CatalogRows):
            return NotImplemented
        return self.body == other.body and list(self.columns.items()) == list(other.columns.items())

    def __hash__(self) -> int:
        return hash(self.body)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "values"}


def stored(file: DataFile, path: str, created_ms: int, where: str) -> DataFile:
    """Rows of an append as a catalog keeps them."""
    rows: InlinedRows = file.inlined
    body = orjson.dumps(rows.to_json())
    kept = CatalogRows(tuple(rows.columns.items()), body, rows.count, where)
    return file._replace(
        path=path, size=len(body), created_ms=created_ms, extra={**(file.extra or {}), "inlined": kept}
    )


def with_body(file: DataFile, columns: Columns, body: bytes, where: str) -> DataFile:
    """A file that was decoded, with the rows that its message holds."""
    rows = CatalogRows(columns, body, file.rows or 0, where)
    return file._replace(extra={**(file.extra or {}), "inlined": rows})


def body_of(file: DataFile) -> bytes:
    """The bytes of rows that stand in the catalog; none of a file."""
    rows = file.inlined
    return rows.body if isinstance(rows, CatalogRows) else b""
