"""Bulk load: rows straight into SSTs below L0, past memtable and flush.

Takes the compactor's epoch and compacts L0 first, since older L0 would shadow what is loaded. All rows of a load
have one seq: above all that is compacted, below all later L0. In process the rows come as Arrow batches; tasks of
a cluster call `load_task`, each with sorted rows of a key range of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import UnsupportedError
from firn.keyed.definition import KeyedDefinition

if TYPE_CHECKING:
    from firn.journal.manifest.model import SSTInfo
    from firn.keyed.table import KeyedTable
    from firn.runner import Runner


@dataclass(frozen=True)
class LoadContext:
    """All that tasks of one load share; picklable."""

    definition: KeyedDefinition
    prefix: str
    epoch: int
    seq: int
    level: int
    run: int
    first_number: int


@dataclass(frozen=True)
class LoadReport:
    """`version` is the view's after the load."""

    version: str
    rows: int
    ssts: int
    bytes: int


def load(table: KeyedTable, data: Any, *, runner: Runner | None = None) -> LoadReport:
    """Load rows: an Arrow table, reader or iterable of batches, pandas, polars, or a list of dicts."""
    raise UnsupportedError(f"{table.name} can't be loaded by this version")


class BulkLoad:
    """One load by tasks of a cluster: a context to ship, a commit of what they return.

    `with BulkLoad(table) as load:` ship `load.context`, call `load_task` in each, then `load.commit(parts)`.
    """

    def __init__(self, table: KeyedTable, *, runner: Runner | None = None) -> None:
        self._table, self._runner = table, runner
        self.context: LoadContext

    def __enter__(self) -> BulkLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def commit(self, parts: Sequence[Sequence[SSTInfo]]) -> LoadReport:
        """Make visible what the tasks wrote, given in the order of their key ranges."""
        raise UnsupportedError(f"{self._table.name} can't be loaded by this version")


def load_task(
    bucket: Bucket, context: LoadContext, part: int, attempt: int, batches: Iterable[pa.RecordBatch]
) -> list[SSTInfo]:
    """Write rows, sorted by key, as SSTs. `part` is the task's number, `attempt` which of its tries this is.

    The batches have the table's public columns: `key` and `value`, or the typed ones. Of rows with one key the
    last stays. Raises `InvalidInputError` where the keys aren't ascending.
    """
    raise UnsupportedError(f"{context.prefix} can't be loaded by this version")
