"""A finding of a check: one object, its fault, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from firn.errors import FirnError
from firn.journal.model import Conflict
from firn.journal.naming import Naming


@dataclass(frozen=True)
class Finding:
    """A "problem" should be mended: something can't be read, or won't be when it is needed. A "note" is how things
    are. `remedy` is empty where nothing has to be done."""

    object: str
    what: str
    remedy: str = ""
    severity: Literal["problem", "note"] = "problem"

    def __str__(self) -> str:
        return " ".join(
            filter(None, (f"{self.object}: {self.what}.", f"{self.remedy}." if self.remedy else ""))
        )


def note(where: str, what: str, remedy: str = "") -> Finding:
    """A finding that is no problem."""
    return Finding(where, what, remedy, "note")


def conflicts(where: str, found: Sequence[Conflict]) -> list[Finding]:
    """Values that are set aside, as problems of an object."""
    return [
        Finding(
            where,
            f"column {each.column!r} is {each.kept_type} in {each.owner} and {each.type} in {each.source}, whose "
            f"values are shown as {each.aside!r}",
            f"Make them one column with resolve({each.column!r}, to={each.common_type!r})",
            "problem",
        )
        for each in found
    ]


def shared_names(where: str, naming: Naming) -> list[Finding]:
    """Columns that are shown under another name than they should, as problems of an object."""
    found = []
    for text in naming.warnings:
        what, _, remedy = text.partition(". ")
        found.append(Finding(where, what, f"Give it a name of its own: {remedy.partition(' ')[0]}"))
    return found


def of_error(where: str, error: FirnError | str) -> Finding:
    """An error's message, whose last sentence says what to do, as a problem of an object.

    >>> of_error("s3://b/x", "s3://b/x is too short. Copy it back.")
    Finding(object='s3://b/x', what='is too short', remedy='Copy it back', severity='problem')
    """
    text = str(error)
    if not text.startswith(f"{where}/"):  # else it is about an object below
        text = text.removeprefix(where)
    text = text.strip(" :,").rstrip(".")
    for stop in (". ", ": "):
        what, found, remedy = text.rpartition(stop)
        if found:
            return Finding(where, what, remedy[:1].upper() + remedy[1:])
    return Finding(where, text)


@dataclass
class Findings:
    """Collects the results of one check: findings in order, and how many objects of each kind it looked at."""

    found: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def add(self, *findings: Finding) -> None:
        self.found.extend(findings)

    def problem(self, where: str, what: str, remedy: str = "") -> None:
        self.add(Finding(where, what, remedy))

    def note(self, where: str, what: str, remedy: str = "") -> None:
        self.add(note(where, what, remedy))

    def error(self, where: str, error: FirnError | str) -> None:
        """See `of_error`."""
        self.add(of_error(where, error))

    def count(self, kind: str, number: int) -> None:
        self.checked[kind] = self.checked.get(kind, 0) + number

    def confirmed_by(self, again: Findings) -> Findings:
        """The findings of both passes: other processes work meanwhile, and work under way looks like damage."""
        before = {f for f in self.found if f.severity == "problem"}
        kept = [f for f in again.found if f.severity == "note" or f in before]
        return Findings(kept, again.checked)

    @property
    def problems(self) -> list[Finding]:
        return [f for f in self.found if f.severity == "problem"]


def shown(names: Iterable[object], *, most: int = 10) -> str:
    """Some names for a line.

    >>> shown(["a", "b", "c"], most=2)
    'a, b, …'
    """
    listed = list(map(str, names))
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


class TableCheck(Protocol):
    """How a kind of table is checked: the `PART` of `firn.inspect.fsck.<kind>`."""

    def __call__(self, table: Any, *, footers: bool, blocks: bool, checks: bool) -> Findings:
        """Check a table that can be opened; what is wrong with it is a finding, not an error. Nothing is written.

        Args:
            footers: read what each data file says of itself, too.
            blocks: read data files whole, if they have checksums.
            checks: ask rows whether they pass the table's checks, if it can have any.
        """
        ...
