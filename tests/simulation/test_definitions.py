"""No sequence of successful calls makes a table unreadable or hides a row, whatever types its appenders bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firn.journal.agreement import Agreement
from firn.journal.entries import Entries
from firn.journal.leaderless.replay import replay
from firn.lake.maintain import alter, delete
from firn.lake.partition.bounds import PartitionBounds
from firn.lake.partition.partition import PartitionSpec, directory_of, values_of
from simulation.definitions import Program

pytestmark = pytest.mark.long

STEPS = 14

TABLES = [("leaderless", False), ("leaderless", True), ("writer", False), ("writer", True)]


@pytest.mark.parametrize(("journal", "partitioned"), TABLES)
@pytest.mark.parametrize("seed", range(1))
def test_every_row_is_shown_once(journal: str, partitioned: bool, seed: int) -> None:
    Program(seed, journal, partitioned).run(STEPS)


def test_a_definition_that_isnt_carried_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    carries_no_definition(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(8):
            Program(seed, "leaderless", verbs=("append", "alter", "merge")).run(STEPS)


def forgets_types(patch: pytest.MonkeyPatch) -> None:
    """Files carried on lose the types that aren't their schema line's."""
    patch.setattr(replay, "_note_types", lambda *_: None)


def keeps_statistics(patch: pytest.MonkeyPatch) -> None:
    """Statistics go by the column's name in the file."""
    patch.setattr(Agreement, "_entry", lambda self, place, own: place)


def believes_directories(patch: pytest.MonkeyPatch) -> None:
    """A directory tells of the column that the file's own values aren't of."""
    patch.setattr(PartitionBounds, "without", lambda self, _: self)


def removes_directories(patch: pytest.MonkeyPatch) -> None:
    """A file is of the partition of its directory, whatever its rows are shown as."""
    patch.setattr(
        PartitionSpec,
        "place_of",
        lambda _, file, places: (directory_of(file, places), values_of(file, places)),
    )


def deletes_by_shown_names(patch: pytest.MonkeyPatch) -> None:
    """A soft delete is kept over the columns as they are shown."""
    original = delete.frozen
    patch.setattr(delete, "frozen", lambda predicate, columns, reads=None: original(predicate, columns))


def forgets_into(patch: pytest.MonkeyPatch) -> None:
    """A resolve sets the type alone, and not what merges have written beside."""
    original = alter._together

    def together(*args: Any) -> Any:
        return {key: value for key, value in original(*args).items() if key[0] == "type"}

    patch.setattr(alter, "_together", together)


def chooses_definitions(patch: pytest.MonkeyPatch) -> None:
    """Of two definitions one is chosen."""
    patch.setattr(Entries, "joined", lambda self, other: other if other.clock >= self.clock else self)


def carries_no_definition(patch: pytest.MonkeyPatch) -> None:
    """Maintenance logs say what they change, and not what was changed before."""
    original = replay.maintenance_log

    def maintenance_log(state: Any, commit: Any, **options: Any) -> Any:
        log = original(state, commit, **options)
        if commit.definition is None:
            log.notes.pop("definition", None)
        return log

    patch.setattr("firn.journal.leaderless.maintain.session.maintenance_log", maintenance_log)


MUTATIONS: list[tuple[Callable[[pytest.MonkeyPatch], None], str, bool, int]] = [
    (forgets_types, "leaderless", False, 0),
    (keeps_statistics, "leaderless", False, 0),
    (keeps_statistics, "writer", False, 0),
    (believes_directories, "leaderless", True, 1),
    (removes_directories, "leaderless", True, 0),
    (removes_directories, "writer", True, 0),
    (deletes_by_shown_names, "writer", False, 7),
    (forgets_into, "leaderless", False, 1),
    (chooses_definitions, "writer", False, 6),
]
"""Each with a seed by which it is noticed; later ones are tried, too."""


@pytest.mark.parametrize(("mutate", "journal", "partitioned", "seed"), MUTATIONS)
def test_a_rule_that_is_left_out_is_noticed(
    mutate: Callable[[pytest.MonkeyPatch], None],
    journal: str,
    partitioned: bool,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    for number in range(seed, seed + 8):
        try:
            Program(number, journal, partitioned).run(STEPS)
        except Exception:
            return
    pytest.fail(f"{mutate.__name__} wasn't noticed")
