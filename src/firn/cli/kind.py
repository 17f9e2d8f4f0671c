"""The shell's questions to a kind of table. Each kind's answers stand in `firn.cli.<kind>.kind`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

import typer

from firn.errors import InvalidInputError
from firn.kinds import part_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database


class TableRow(TypedDict):
    """A line of `firn tables`. None is what nobody knows without reading the table."""

    name: str
    kind: str
    rows: int | None
    files: int
    bytes: int
    partition_by: list[str]
    sort_by: list[str]
    version: str | None
    time: datetime | None


@dataclass(frozen=True)
class Ingest:
    """What `firn ingest` was told of the table that takes the rows, and of their way into it."""

    name: str
    key: list[str]
    properties: dict[str, str]
    partition_by: list[str]
    sort_by: list[str]
    version_by: str | None
    journal: str
    query: str | None
    batch_id: str | None
    upsert: bool
    json: bool

    def refuse_properties(self) -> None:
        """For a table that is there."""
        if self.properties:
            raise InvalidInputError(f"{self.name} exists: its properties were set when it was created.")

    def refuse_lake_options(self, title: str) -> None:
        """For a kind that has none of what only lake tables have."""
        given = {
            "--partition-by": self.partition_by,
            "--sort-by": self.sort_by,
            "--version-by": self.version_by,
            "--journal": self.journal != "leaderless",
            "--upsert": self.upsert,
            "--query": self.query,
            "--batch-id": self.batch_id,
        }
        for option, value in given.items():
            if value:
                raise InvalidInputError(
                    f"{option} is for lake tables, and {self.name} is a {title} table: leave it out."
                )


@dataclass(frozen=True)
class LogOptions:
    """What `firn log` was told of a table's history."""

    writer: str | None
    at: str | None
    limit: int | None
    json: bool


class ShellKind(Protocol):
    """One kind of table in the shell. `table` is always one of the kind's own."""

    group: typer.Typer | None = None
    """The group of the kind's own verbs: `firn keyed`."""
    verbs: tuple[str, ...] = ()
    """The modules beside the kind's that hang commands into it, in the order of the help."""

    def row(self, table: Any) -> TableRow:
        """The line of `firn tables`."""
        ...

    def print_schema(self, table: Any, *, at: str | None, json: bool) -> None:
        """Print columns and what else the table was created with, by `firn schema`."""
        ...

    def key(self, words: Sequence[str]) -> Any:
        """What `firn create --key` names, as `Database.create_table` takes it. No requests."""
        return list(words)

    def print_log(self, database: Database, table: Any, asked: LogOptions) -> None:
        """Print the table's history, the newest last, by `firn log`. Refuse the options that it can't answer."""
        ...

    def check_ingest(self, table: Any | None, asked: Ingest) -> None:
        """Refuse what `firn ingest` can't do, before Spark starts. `table` is None where it is to be made."""
        ...

    def columns(self, table: Any) -> dict[str, str]:
        """The columns that a table has already, whose types files follow."""
        ...

    def ingest(self, database: Database, table: Any | None, frame: DataFrame, asked: Ingest) -> None:
        """Put the rows of a DataFrame into the table, made if there is none, and say so."""
        ...


def shell_kind(kind: str) -> ShellKind:
    return cast("ShellKind", part_of(kind, "shell"))
