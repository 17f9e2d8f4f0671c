"""Statements as they are read: one frozen class each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from firn.journal.typenames import quoted
from firn.lake.maintain.matching.clauses import MergeClause
from firn.predicate.parameters import literal


@dataclass(frozen=True)
class QueryStatement:
    """A query of the engine; `explain` asks for its plan, `analyze` for that of a run."""

    text: str
    explain: bool = False
    analyze: bool = False


@dataclass(frozen=True)
class ShowTables:
    """The names of all tables, and their kinds."""


@dataclass(frozen=True)
class ShowCreateTable:
    table: str


@dataclass(frozen=True)
class CreateTable:
    """`columns` are types by name; `options` what WITH says; `query` fills the table.

    What ALTER TABLE and COMMENT ON say behind it is only shown: `defaults` by column; `comments` by column, the
    table's own by ""; and `checks` by name.
    """

    table: str
    if_not_exists: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    not_null: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    query: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The statement as SQL, but for a query, and those that say the rest."""
        kinds = {name: kind for name, kind in self.columns.items() if name not in self.defaults}
        lines = [f"  {quoted(name)} {kind}" for name, kind in kinds.items()]
        if self.key:
            lines.append(f"  PRIMARY KEY ({', '.join(map(quoted, self.key))})")
        text = f"CREATE TABLE {quoted(self.table)}"
        if lines:
            text += " (\n" + ",\n".join(lines) + "\n)"
        orders = tuple(map(_ordered, self.sort_by))
        for clause, values in (("PARTITIONED BY", self.partition_by), ("SORTED BY", orders)):
            if values:
                text += f"\n{clause} ({', '.join(values)})"
        options = ", ".join(f"{name} = {literal(value)}" for name, value in self.options.items())
        return "\n".join([f"{text}\nWITH ({options});" if options else f"{text};", *self._behind()])

    def _behind(self) -> Iterator[str]:
        table = quoted(self.table)
        for name, default in self.defaults.items():
            yield f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {self.columns[name]} DEFAULT {literal(default)};"
        for name, predicate in self.checks.items():
            yield f"ALTER TABLE {table} ADD CONSTRAINT {quoted(name)} CHECK ({predicate});"
        for name, comment in self.comments.items():
            what = f"COLUMN {table}.{quoted(name)}" if name else f"TABLE {table}"
            yield f"COMMENT ON {what} IS {literal(comment)};"


@dataclass(frozen=True)
class DropTable:
    table: str
    if_exists: bool = False


@dataclass(frozen=True)
class Insert:
    """`conflict` is None, "nothing" or "update"; `assignments` what DO UPDATE SET says, None for all columns."""

    table: str
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: Literal["no", "all", "partitions"] = "no"
    replace_where: str | None = None
    conflict: Literal["nothing", "update"] | None = None
    conflict_columns: tuple[str, ...] = ()
    assignments: dict[str, str] | None = None
    conflict_where: str | None = None


@dataclass(frozen=True)
class Merge:
    """A MERGE, or an UPDATE or DELETE, which are the same with one clause: `op` says which.

    `source` is the text of a table or of a query in brackets; None where there is none, and `on` alone decides.
    """

    op: Literal["merge_into", "update", "delete"]
    table: str
    alias: str
    source: str | None
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]
    using: tuple[str, ...] = ()


@dataclass(frozen=True)
class IfThere:
    """What an action with IF EXISTS, or IF NOT EXISTS where `there` is False, says of `name`: its `keywords` in the
    changes. They name a check if they are "checks", else a column."""

    name: str
    keywords: tuple[str, ...]
    there: bool


@dataclass(frozen=True)
class AlterTable:
    """`changes` are the arguments of the verb `alter` by keyword. `conditions` say which count only sometimes."""

    table: str
    if_exists: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    conditions: tuple[IfThere, ...] = ()


@dataclass(frozen=True)
class Truncate:
    table: str


@dataclass(frozen=True)
class CallStatement:
    """`CALL verb(table, name => value)`."""

    verb: str
    table: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class CopyFrom:
    """Rows of files, into these columns of a table: by their names if none are named."""

    table: str
    path: str
    columns: tuple[str, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class CopyTo:
    """Rows of a query into one file."""

    query: str
    path: str
    options: Mapping[str, Any]


Statement = (
    QueryStatement
    | ShowTables
    | ShowCreateTable
    | CreateTable
    | AlterTable
    | DropTable
    | Insert
    | Merge
    | Truncate
    | CallStatement
    | CopyFrom
    | CopyTo
)


def _ordered(text: str) -> str:
    """A column of an order as SQL, its direction behind its name."""
    name, _, last = text.rpartition(" ")
    if name and last.upper() in ("ASC", "DESC"):
        return f"{quoted(name)} {last}"
    return quoted(text)
