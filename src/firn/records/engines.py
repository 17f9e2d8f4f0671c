"""Where the work of a whole record table runs. `firn.database.database` gives every table an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from firn.errors import UnsupportedError
from firn.runner import LocalEngines, TaskEngines

if TYPE_CHECKING:
    from firn.records.load.load import RecordLoadReport
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable


class Engines(TaskEngines, Protocol):
    """A cluster's, or this process's."""

    def records_load(
        self, table: RecordTable | RowTable, frame: Any, *, id: str, batch: int
    ) -> RecordLoadReport: ...

    def records_to_spark(
        self, table: RecordTable | RowTable, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any: ...


class InProcess(LocalEngines):
    """No cluster: tasks run in threads of this process."""

    def records_load(
        self, table: RecordTable | RowTable, frame: Any, *, id: str, batch: int
    ) -> RecordLoadReport:
        raise _without_database(table)

    def records_to_spark(
        self, table: RecordTable | RowTable, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any:
        raise _without_database(table)


def _without_database(table: RecordTable | RowTable) -> UnsupportedError:
    return UnsupportedError(f"{table.name} was made without a database: get it by firn.connect(…).table(…)")
