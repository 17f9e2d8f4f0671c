"""Reads of one table: a plan bound to a version, for every kind of table and every engine.

SQL and Spark narrow a plan, share out its units, and know no more of a table than this. A kind of table joins by its
part `read`, which stands in `firn.<kind>.plan.read`: see `ReadPlanner`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.kinds import part_of
from firn.names import fold
from firn.predicate.predicate import Predicate

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Unit(NamedTuple):
    """The least that a task can read by itself, and the bytes of input that it weighs. Picklable."""

    work: Any
    weight: int


class QueryMoment:
    """The moment of one query: it reads tables that have a log in common at one commit of that log."""

    def __init__(self) -> None:
        self._pinned: dict[int, Any] = {}

    def of(self, log: object, pin: Callable[[], T]) -> T:
        """The value that `pin` has given for the first table of this log."""
        if id(log) not in self._pinned:
            self._pinned[id(log)] = pin()
        found: T = self._pinned[id(log)]
        return found


class TableRead(Protocol):
    """One table at one version: all that planning and tasks need, without the table. Immutable and picklable."""

    @property
    def kind(self) -> str:
        """The kind of the table."""
        ...

    @property
    def bucket(self) -> Bucket: ...

    @property
    def table(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def table_id(self) -> str:
        """Tells the table from one that has its name after it was dropped; empty where nothing does."""
        ...

    @property
    def version(self) -> str:
        """The version that is read; empty where a table has none."""
        ...

    @property
    def kept_by(self) -> str:
        """The setting or object that keeps old versions readable for longer, for messages."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the read leaves out as broken, or shows aside."""
        ...

    @property
    def columns(self) -> ColumnTypes:
        """The columns that a read gives, in order."""
        ...

    @property
    def known(self) -> ColumnTypes:
        """All that predicates may name."""
        ...

    def select(self, names: Sequence[str]) -> TableRead:
        """The same, with these of the known columns only. Names are spelled as the table does."""
        ...

    def where(self, sql: str) -> TableRead:
        """Only the rows for which a further predicate is true."""
        ...

    def pruned(self, predicates: Sequence[Predicate]) -> TableRead:
        """Less what surely holds no row for which all predicates are true; rows that aren't may stay."""
        ...

    def scope(self) -> Hashable:
        """The part that is left to be read. Reads that differ by `pruned` alone give the same rows if it is equal."""
        ...

    def units(self) -> list[Unit]:
        """The units that tasks share. May cost requests, on the driver."""
        ...

    def for_tasks(self) -> TableRead:
        """The read as tasks need it besides their units."""
        ...

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table | pa.RecordBatch]:
        """In a task: the rows of units, with at least the read's columns, none of the pieces empty."""
        ...


class ReadPlanner(Protocol):
    """A kind's part `read`: pins a version of a table of the kind."""

    def __call__(
        self,
        table: Any,
        *,
        columns: Sequence[str] | None,
        where: str | None,
        at: Any,
        moment: QueryMoment | None,
        fields: ColumnTypes | None,
        indexed: bool,
    ) -> TableRead: ...


def plan_read(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    at: Any = None,
    moment: QueryMoment | None = None,
    fields: ColumnTypes | None = None,
    indexed: bool = False,
) -> TableRead:
    """Pin a version of a table, of any kind. Cost: the snapshot's requests.

    Args:
        moment: the tables of one query that have a log in common are read at one commit.
        fields: columns that are wanted of a table that may not have declared any.
        indexed: whether a table without declared columns has one for each indexed field, as SQL sees it.
    """
    plan = cast("ReadPlanner", part_of(table.kind, "read"))
    return plan(table, columns=columns, where=where, at=at, moment=moment, fields=fields, indexed=indexed)


def spelled(table: str, known: ColumnTypes, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Columns as the table spells them; all of them for None."""
    if columns is None:
        return tuple(known)
    folded = {fold(name): name for name in known}
    found = tuple(name if name in known else folded.get(fold(name), "") for name in columns)
    for asked, name in zip(columns, found, strict=True):
        if not name:
            raise InvalidInputError(f"{table} has no column {asked!r}; it has: {', '.join(known)}.")
        if found.count(name) > 1:
            raise InvalidInputError(f"the column {name!r} is asked for twice.")
    return found
