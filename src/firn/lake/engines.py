"""What a table asks of the engine above it: where tasks run, and what to do with a DataFrame.

`firn.database.database` gives every table an `Engines`; the lake itself imports no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from firn.errors import UnsupportedError
from firn.journal.model import ColumnTypes, DataFile, Namer
from firn.runner import LocalEngines, TaskEngines

if TYPE_CHECKING:
    from firn.lake.read.scan import Scan
    from firn.lake.table import LakeTable


@dataclass(frozen=True)
class Written:
    """Files that tasks wrote and nobody sees yet, and the columns that they hold."""

    files: Sequence[DataFile]
    columns: ColumnTypes


class Engines(TaskEngines, Protocol):
    """Chooses where work runs."""

    def write(
        self, table: LakeTable, data: Any, namer: Namer, *, query: str | None, aside: frozenset[str]
    ) -> Written:
        """Write a cluster's DataFrame as files of the table, committing nothing."""
        ...

    def to_spark(self, scan: Scan) -> Any: ...


class InProcess(LocalEngines):
    """No cluster: tasks run in threads of this process."""

    def write(
        self, table: LakeTable, data: Any, namer: Namer, *, query: str | None, aside: frozenset[str]
    ) -> Written:
        raise _without_database(table)

    def to_spark(self, scan: Scan) -> Any:
        raise _without_database(scan.table)


def _without_database(table: LakeTable) -> UnsupportedError:
    return UnsupportedError(f"{table.name} was made without a database: get it by firn.connect(…).table(…)")
