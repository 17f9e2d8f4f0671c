"""Rows that stand in a catalog: a live file whose body is in the transaction, and in checkpoints. See `Rows` on the
format's page."""

from __future__ import annotations

from dataclasses import replace

from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Columns


def stored(file: DataFile, path: str, created_ms: int, where: str) -> DataFile:
    """Rows of an append as a catalog keeps them."""
    rows: InlinedRows = file.inlined
    extra = {**(file.extra or {}), "inlined": replace(rows, where=where)}
    return file._replace(path=path, size=rows.size, created_ms=created_ms, extra=extra)


def with_body(file: DataFile, columns: Columns, body: bytes, where: str) -> DataFile:
    """A file that was decoded, with the rows that its message holds."""
    rows = InlinedRows.of_body(dict(columns), body, file.rows or 0, where)
    return file._replace(extra={**(file.extra or {}), "inlined": rows})


def body_of(file: DataFile) -> bytes:
    """The bytes of rows that stand in the catalog; none of a file."""
    rows = file.inlined
    return rows.body if isinstance(rows, InlinedRows) else b""
