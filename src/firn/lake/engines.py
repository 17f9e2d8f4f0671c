"""What a table asks of the engine above it: where tasks run, and what to do with a DataFrame.

`firn.database` gives every table an `Engines`; the lake itself imports no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from firn.errors import UnsupportedError
from firn.journal.model import ColumnTypes, DataFile, Namer
from firn.runner import LocalRunner, Progress, Runner

if TYPE_CHECKING:
    from firn.lake.scan import Scan
    from firn.lake.table import LakeTable


@dataclass(frozen=True)
class Written:
    """Files that tasks wrote and nobody sees yet, and the columns that they hold."""

    files: Sequence[DataFile]
    columns: ColumnTypes


class Engines(Protocol):
    """Chooses where work runs."""

    def runner(self, input_bytes: int) -> Runner:
        """The runner for a plan that reads so many bytes."""
        ...

    def progress(self, title: str) -> Progress | None:
        """Where to report a long plan's progress, if anywhere."""
        ...

    def is_dataframe(self, data: Any) -> bool:
        """Whether `data` is a DataFrame of the cluster's, which `write` takes."""
        ...

    def write(self, table: LakeTable, data: Any, namer: Namer, *, query: str | None) -> Written:
        """Write a cluster's DataFrame as files of the table, committing nothing."""
        ...

    def to_spark(self, scan: Scan) -> Any: ...


class InProcess:
    """No cluster: tasks run in threads of this process."""

    def __init__(self, runner: Runner | None = None) -> None:
        self._runner = runner or LocalRunner()

    def runner(self, input_bytes: int) -> Runner:
        return self._runner

    def progress(self, title: str) -> Progress | None:
        return None

    def is_dataframe(self, data: Any) -> bool:
        return False

    def write(self, table: LakeTable, data: Any, namer: Namer, *, query: str | None) -> Written:
        raise UnsupportedError("this table was opened without Spark; open it through firn.connect(url).")

    def to_spark(self, scan: Scan) -> Any:
        raise UnsupportedError("this table was opened without Spark; open it through firn.connect(url).")
