"""A database's questions to a kind of table: `TableKind`. To add one, see docs/design/0013-add-a-kind-of-table.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from firn.bucket.base import Bucket
from firn.concurrency.once import Once
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.generations import Generations
from firn.journal.lock import ExclusiveLock
from firn.keeping import Turns
from firn.kinds import KINDS, Kind, part_of

if TYPE_CHECKING:
    from firn.database.engines import DatabaseEngines
    from firn.database.writer_tables import WriterTables
    from firn.lake.results import DropReport


class StoredDefinition(Protocol):
    """What `_firn/table.json` says of a table of any kind. A frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> str:
        """Told apart by it from others of the name; empty for a table that has no definition in the bucket."""
        ...

    @property
    def generation(self) -> int:
        """How many tables of the name were before it."""
        ...

    @property
    def dropped(self) -> bool: ...

    @property
    def erased(self) -> bool:
        """Whether a dropped table's objects are known to be gone."""
        ...

    def encode(self) -> bytes: ...


@dataclass(frozen=True)
class Place:
    """A database, as its kinds see it."""

    bucket: Bucket
    prefix: str
    url: str
    options: Mapping[str, Any]
    engines: DatabaseEngines
    writers: Once[WriterTables]
    lock: ExclusiveLock | None


@dataclass(frozen=True)
class Vacant:
    """A name that no table has: the definition that the last one left, and its ETag; None where there is none."""

    name: str
    there: StoredDefinition | None = None
    over: str | None = None

    def generation(self, generations: Generations) -> int:
        """The generation of the next table. 1 GET where the definition may not tell."""
        return generations.after(self.name, None if self.there is None else self.there.generation)


class TableNames(Protocol):
    """The names of a database's tables."""

    def free(self, name: str, kind: Kind) -> Vacant:
        """See that no table has the name, and end the drop of one that had. `TableExistsError` where one has."""
        ...

    def free_for_writers(self, name: str) -> Vacant:
        """The same for a table that lies in writers' catalogs."""
        ...


O = TypeVar("O")  # noqa: E741
D = TypeVar("D", bound=StoredDefinition)
T = TypeVar("T")


class TableKind(ABC, Generic[O, D, T]):
    """One kind of table in one database: its options `O`, definitions `D` and tables `T`.

    The class says what is true of the kind anywhere; an object of it makes, opens and drops the tables of a database.
    """

    name: ClassVar[Kind]
    title: ClassVar[str]
    """The name of its tables in messages: "a record table"."""
    advice: ClassVar[str]
    """A sentence: how to use a table of it where another kind is needed."""
    options: ClassVar[type[Any]]
    """The dataclass of what `Database.create_table` may be told of a table; its fields are the keywords' names."""
    may_define_logs: ClassVar[bool] = False
    """Whether a table of it may be made where a leaderless log lies without a definition, and take it over."""

    @staticmethod
    @abstractmethod
    def decode(data: bytes, where: str) -> Any:
        """The definition in these bytes; `where` names the object for messages.

        Raises:
            CorruptObjectError: it can't be read.
            UnsupportedError: a later version of Firn wrote it.
        """

    @classmethod
    @abstractmethod
    def at(cls, place: Place) -> TableKind[O, D, T]:
        """The kind in a database. No requests."""

    @abstractmethod
    def describe(self, name: str, asked: O) -> D:
        """The definition that the options ask for. `InvalidInputError` for what can't be; no requests."""

    def vacate(self, definition: D, names: TableNames) -> Vacant:
        """Find the table's name free, or raise `TableExistsError`."""
        return names.free(definition.name, self.name)

    @abstractmethod
    def create(self, definition: D, vacant: Vacant) -> T:
        """Make a table where none has the name. `TableExistsError` if somebody else was faster."""

    @abstractmethod
    def open(self, definition: D) -> T:
        """The table of a definition. No requests."""

    def usable(self, definition: D) -> D | None:
        """The definition to open the table by; None if it is of no table: dropped, or never made to the end."""
        return None if definition.dropped else definition

    def is_listed(self, definition: D) -> bool:
        """Whether `Database.tables` names the table. No requests."""
        return not definition.dropped

    @abstractmethod
    def drop(self, definition: D, *, dry_run: bool = False) -> DropReport:
        """Mark the table as dropped, so that nobody opens it, and erase it. See `Database.drop_table`."""

    @abstractmethod
    def erase(self, definition: D, *, dry_run: bool = False) -> DropReport:
        """Delete a dropped table's objects, and leave its definition. Again after a crash: the rest."""

    @abstractmethod
    def keeper(self, table: T, *, named: bool) -> Turns | None:
        """What keeps a table small, in a process that does nothing else; None where it needs nothing, or isn't this
        connection's to keep. Tables that share something are kept under one name, which isn't a table's.

        Args:
            named: somebody asked for this table, not for all.
        """

    def lost(self, name: str) -> CorruptObjectError | None:
        """The error to raise if a table of this kind has lost its definition; None where nothing says so."""
        return None


class KindsAt(Mapping[Kind, TableKind[Any, Any, Any]]):
    """The kinds of tables in a database, each imported and made when it is first asked for."""

    def __init__(self, place: Place) -> None:
        self._made = {kind: Once(partial(_kind_at, kind, place)) for kind in KINDS}

    def __getitem__(self, kind: Kind) -> TableKind[Any, Any, Any]:
        return self._made[kind]()

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _kind_at(kind: Kind, place: Place) -> TableKind[Any, Any, Any]:
    return kind_named(kind).at(place)


def kind_named(name: str) -> type[TableKind[Any, Any, Any]]:
    found: type[TableKind[Any, Any, Any]] = part_of(name, "table")
    return found


def all_kinds() -> Iterator[type[TableKind[Any, Any, Any]]]:
    return map(kind_named, KINDS)


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, KINDS))}.")


def check_options(kind: Kind, given: Mapping[str, Any]) -> None:
    """Refuse options of other kinds of tables."""
    own = {field.name for field in fields(kind_named(kind).options)}
    for option in given.keys() - own:
        kinds = [k.name for k in all_kinds() if option in {field.name for field in fields(k.options)}]
        raise InvalidInputError(
            f"{option} is for tables of kind {' and '.join(map(repr, kinds))}; this one is to be {kind!r}."
        )


def wrong_kind(name: str, has: str, asked: str) -> InvalidInputError:
    """For a verb that only another kind of table has."""
    there = kind_named(has)
    return InvalidInputError(
        f"{name} is a {there.title} table, and this needs a {kind_named(asked).title} table. {there.advice}"
    )
