"""Where the work of a whole record table runs. `firn.database.database` gives every table an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from firn.errors import UnsupportedError
from firn.records.load.load import RecordLoadReport
from firn.runner import LocalEngines, TaskEngines


class Engines(TaskEngines, Protocol):
    """A cluster's, or this process's. A `table` is a `RecordTable` or a `RowTable`, which stand above."""

    def records_load(self, table: Any, frame: Any, *, id: str, batch: int) -> RecordLoadReport: ...

    def records_to_spark(
        self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any: ...


class InProcess(LocalEngines):
    """No cluster: tasks run in threads of this process."""

    def records_load(self, table: Any, frame: Any, *, id: str, batch: int) -> RecordLoadReport:
        raise _without_database(table)

    def records_to_spark(
        self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any:
        raise _without_database(table)


def _without_database(table: Any) -> UnsupportedError:
    return UnsupportedError(f"{table.name} was made without a database: get it by firn.connect(…).table(…)")
