"""Where the work of a whole record table runs. `firn.database.database` gives every table an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from firn.records.load.load import RecordLoadReport
from firn.runner import LocalEngines, TaskEngines, without_database


class Engines(TaskEngines, Protocol):
    """A cluster's, or this process's. A `table` is a `RecordTable` or a `RowTable`, which stand above."""

    def records_load(self, table: Any, frame: Any, *, id: str, batch: int) -> RecordLoadReport: ...

    def records_to_spark(
        self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any: ...


class InProcess(LocalEngines):
    """No cluster: tasks run in threads of this process."""

    def records_load(self, table: Any, frame: Any, *, id: str, batch: int) -> RecordLoadReport:
        raise without_database(table.name)

    def records_to_spark(
        self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any:
        raise without_database(table.name)
