"""Commands on one table: the parameters that all of them have, the table that these open, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import AbstractContextManager
from functools import cached_property, update_wrapper
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar, cast

import typer

from firn.cli.opening import open_database
from firn.cli.options import flag
from firn.cli.target import DbOption, DryRun, Json, StoreOptions, TableArg, WriterOption, locate
from firn.cli.terminal import output, waiting

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.database.kinds.records import AnyRecordTable
    from firn.database.tables import AnyTable
    from firn.keyed.table import KeyedTable
    from firn.kinds import Kind
    from firn.lake.table import LakeTable

T = TypeVar("T")
Verb = TypeVar("Verb", bound=Callable[..., None])

Strict = Annotated[bool, flag("Fail where a writer can't be read, instead of leaving it out.", "--strict")]
Shared = Literal["writer", "dry_run", "strict"]

_SHARED: Mapping[str, tuple[Any, Any]] = {
    "db": (DbOption, None),
    "writer": (WriterOption, None),
    "dry_run": (DryRun, False),
    "json": (Json, False),
    "strict": (Strict, False),
    "options": (StoreOptions, None),
}
"""Type and default of each parameter that commands share."""


class TableCall(Generic[T]):
    """One call of a command on a table. The table is opened when the command first asks for it."""

    meter: waiting.Meter
    """Counts from when the table is open, or the database where the command opens no table."""

    def __init__(
        self,
        kind: Kind | None,
        *,
        table: str,
        db: str | None,
        json: bool,
        options: list[str] | None,
        dry_run: bool = False,
        **connection: Any,
    ) -> None:
        self.json, self.dry_run = json, dry_run
        self._kind: Any = kind
        self._given = table, db
        self._options, self._connection = options, connection

    @cached_property
    def _place(self) -> tuple[str, str]:
        return locate(*self._given)

    @property
    def name(self) -> str:
        return self._place[1]

    @cached_property
    def database(self) -> Database:
        found = open_database(self._place[0], self._options, **self._connection)
        self.meter = waiting.Meter(found.bucket)
        return found

    @cached_property
    def table(self) -> T:
        """The table, which exists. `InvalidInputError` if it is of another kind; the message names its commands."""
        of_kind = {} if self._kind is None else {"kind": self._kind}
        found = self.database.table(self.name, **of_kind)
        self.meter = waiting.Meter(self.database.bucket)
        return cast("T", found)

    def progress(self, doing: str) -> AbstractContextManager[None]:
        return waiting.progress(self.database, f"{doing} {self.name}")

    def answer(self, report: Any, line: str, rest: Callable[[], None] | None = None, **more: object) -> None:
        """See `print_report`."""
        print_report(
            self.name, report, self.meter, self.json, line=line, rest=rest, dry_run=self.dry_run, **more
        )

    def say(self, facts: Mapping[str, Any], line: str) -> None:
        """A short answer: facts of the table as JSON, or a line."""
        if self.json:
            output.document({"table": self.name, **facts})
        else:
            output.line(line)


AnyCall: TypeAlias = "TableCall[AnyTable]"
LakeCall: TypeAlias = "TableCall[LakeTable]"
KeyedCall: TypeAlias = "TableCall[KeyedTable]"
RecordsCall: TypeAlias = "TableCall[AnyRecordTable]"


class _Command:
    """A function as the parser sees it. The types of its parameters are found out only if the command runs."""

    def __init__(self, verb: Callable[..., None], kind: Kind | None, shared: tuple[Shared, ...]) -> None:
        update_wrapper(self, verb, assigned=("__module__", "__name__", "__doc__"))
        self._verb, self._kind = verb, kind
        self._shared = [name for name in _SHARED if name in ("db", "json", "options", *shared)]

    def __call__(self, **given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name not in ("table", *self._shared)}
        self._verb(TableCall(self._kind, **given), **own)

    @cached_property
    def __signature__(self) -> Signature:
        _, *own = signature(self._verb, eval_str=True).parameters.values()
        shared = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=_SHARED[name][0], default=_SHARED[name][1])
            for name in self._shared
        ]
        table = Parameter("table", Parameter.KEYWORD_ONLY, annotation=TableArg)
        return Signature([table, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *shared])

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: each.annotation for name, each in self.__signature__.parameters.items()}


def on_table(
    group: typer.Typer, kind: Kind | None, *shared: Shared, panel: str | None = None, name: str | None = None
) -> Callable[[Verb], Verb]:
    """Make a function a command of a group. It gets a `TableCall`, then its own parameters by name.

    Args:
        kind: of the tables that it is for; None for all.
        shared: what it takes beside TABLE, --db, --json and --option.
        panel: where the help lists it.
        name: by default the function's.
    """

    def hang(verb: Verb) -> Verb:
        group.command(name, rich_help_panel=panel)(_Command(verb, kind, shared))
        return verb

    return hang


def print_report(
    name: str,
    report: Any,
    meter: waiting.Meter,
    json: bool,
    *,
    line: str,
    rest: Callable[[], None] | None = None,
    dry_run: bool = False,
    **more: object,
) -> None:
    """A report's dataclass as JSON, with `more` after its fields; or for a person `line`, and what `rest` prints.

    Requests and seconds come last; for a person not of a dry run, which isn't what the work will take.
    """
    if json:
        output.document({"table": name, **output.plain(report), **more, **meter.plain()})
        return
    output.line(line)
    if rest is not None:
        rest()
    if not dry_run:
        meter.note()


def sweep_line(name: str, counts: Iterable[tuple[Sized, str]], bytes: int, *, dry_run: bool) -> str:
    """Say in one line what a sweep of any kind of table did; `counts` are the keys that went, by kind.

    >>> sweep_line("t", [(["a", "b"], "log"), ([], "orphan")], 2048, dry_run=False)
    'sweep of t deleted 2 logs: 2.0 KB'
    """
    parts = [output.plural(len(keys), noun) for keys, noun in counts if len(keys)]
    if not parts:
        return f"sweep: nothing to delete in {name}"
    return (
        f"sweep of {name} {'would delete' if dry_run else 'deleted'} {', '.join(parts)}: {output.size(bytes)}"
    )
