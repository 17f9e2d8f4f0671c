"""Whatever becomes of a table's columns while others go on by older definitions, each value stays its column's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firn.errors import SchemaConflictError
from firn.journal import agreement as agreements
from firn.journal import naming as namings
from firn.journal.agreement import Agreement
from firn.journal.entries import DEFAULT, Entries
from firn.journal.leaderless.replay import replay
from firn.journal.naming import Naming
from firn.journal.writer.federation import union
from firn.journal.writer.journal import WriterJournal
from firn.lake.maintain import alteration, delete, restore
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from seeds import seeds
from simulation.evolution import Program
from simulation.test_definitions import carries_no_definition

STEPS = 14

TABLES: dict[str, dict[str, Any]] = {
    "leaderless": {"journal": "leaderless"},
    "leaderless, partitioned": {"journal": "leaderless", "partitioned": True},
    "leaderless, keyed": {"journal": "leaderless", "keyed": True},
    "leaderless, keyed and partitioned": {"journal": "leaderless", "keyed": True, "partitioned": True},
    "writers": {"journal": "writer"},
    "writers, partitioned": {"journal": "writer", "partitioned": True, "writers": 3},
    "writers, keyed": {"journal": "writer", "keyed": True},
    "writers, with rows": {"journal": "writer", "partitioned": True, "writers": 3, "inline": True},
    "writers, keyed, with rows": {"journal": "writer", "keyed": True, "inline": True},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", range(2))
def test_each_value_stays_its_columns(kind: str, seed: int) -> None:
    Program(seed, **TABLES[kind]).run(STEPS)


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize("seed", seeds(4, short=1))
def test_sql_reads_the_files_of_a_directory_as_a_scan_does(journal: str, seed: int, tmp_path: Path) -> None:
    Program(seed, journal, directory=tmp_path).run(6)


# -- rules that are left out


def writes_shown_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: files have columns under the names of the moment."""
    patch.setattr(Naming, "physical", lambda self, name: name)


def takes_old_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: a new column has its name in files, whoever had it before."""
    patch.setattr(Naming, "physical", lambda self, name: self.stored.get(name, name))
    patch.setattr(alteration, "free_name", lambda name, taken: name)


def forgets_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: maintenance logs don't carry what columns are called that no entry names."""
    original = replay.maintenance_log

    def maintenance_log(state: Any, commit: Any, **options: Any) -> Any:
        log = original(state, commit, **options)
        log.notes.pop("names", None)
        return log

    patch.setattr("firn.journal.leaderless.maintain.session.maintenance_log", maintenance_log)


def hides_columns(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: of two columns that are to have one name, one is seen."""
    original = namings.name_columns

    def name_columns(*args: Any, **options: Any) -> Naming:
        found = original(*args, **options)
        clashing = {
            name for name in found.stored if any(f"shown as {name!r}" in text for text in found.warnings)
        }
        stored = {name: own for name, own in found.stored.items() if name not in clashing}
        return replace(found, stored=stored, hidden=found.hidden | {found.stored[name] for name in clashing})

    patch.setattr("firn.journal.agreement.name_columns", name_columns)


def reads_statistics_by_shown_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: what a file says of a name is taken to be of the column that is called so by now."""
    patch.setattr(Agreement, "_entry", lambda self, place, own: place)


def prunes_without_defaults(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: a file without a column is one in which it is null."""
    patch.setattr(
        Agreement,
        "_entry",
        lambda self, place, own: own[0] if len(own) == 1 else None if own else "",
    )


def shows_null_for_defaults(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: rows whose file lacks a column are null in it."""
    original = Entries.present
    patch.setattr(Entries, "present", lambda self, kind: {} if kind == DEFAULT else original(self, kind))


def deletes_by_shown_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: a soft delete is kept over columns as they are called when it is made."""
    original = delete.frozen
    patch.setattr(
        delete,
        "frozen",
        lambda predicate, columns, reads=None, defaults=None: original(predicate, columns, {}, {}),
    )


def prunes_by_the_present_spec(patch: pytest.MonkeyPatch) -> None:
    """Rule 17: directories of older specs are taken to be the present one's."""
    original = Pruner.__init__

    def init(self: Pruner, predicate: Any, columns: Any, spec: PartitionSpec | None = None) -> None:
        if spec is not None:
            spec = replace(spec, older=tuple(replace(spec, id=each.id, older=()) for each in spec.older))
        original(self, predicate, columns, spec)

    patch.setattr(Pruner, "__init__", init)


def chooses_definitions(patch: pytest.MonkeyPatch) -> None:
    """Rule 19: of two definitions one is chosen."""
    patch.setattr(Entries, "joined", lambda self, other: other if other.clock >= self.clock else self)


def keeps_the_names_of_today(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: a restore brings back rows, and no names."""
    patch.setattr(restore, "_names_of_then", lambda past, present: {})


def says_nothing_of_new_columns(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: no commit says what a new column is called that has another name in files."""
    patch.setattr(Naming, "brought", lambda self, columns: {})


def keeps_no_catalog_up(patch: pytest.MonkeyPatch) -> None:
    """Rule 20, the other way round: a change of the definition is in no transaction."""
    patch.setattr(WriterJournal, "_define", lambda self, state, commit: ())


def refuses_types(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: two types that don't fit make a table unreadable."""
    original = agreements.agree

    def agree(*args: Any) -> Agreement:
        found = original(*args)
        if found.conflicts:
            raise SchemaConflictError("types don't fit")
        return found

    patch.setattr(replay, "agree", agree)
    patch.setattr(union, "agree", agree)


def skips_values(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: values that don't fit are null, and nowhere else."""
    original = Agreement.reads

    def reads(self: Agreement, types: Any) -> Any:
        return {name: () if name in self.aside else own for name, own in original(self, types).items()}

    patch.setattr(Agreement, "reads", reads)


def believes_the_oldest_file(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: the newest maintenance log doesn't say whose a column is, though a file that it wrote is young."""
    original = replay.agree

    def agree(rules: Any, live: Any, *others: Any) -> Agreement:
        live = list(live)
        said_first = bool(others) and live and "/" not in live[0].name  # no file, but the newest log
        return original(rules, live[1:] if said_first else live, *others)

    patch.setattr(replay, "agree", agree)


def goes_by_writers_names(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: who has a column is the writer whose name sorts first."""
    patch.setattr(union, "seen_name", lambda column, kind: "")


def asks_dead_files(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: types of files that aren't live set values aside."""
    patch.setattr("firn.journal.agreement._Union.turn", lambda self: None)
    original = agreements.agree

    def agree(rules: Any, live: Any, others: Any = ()) -> Agreement:
        return original(rules, [*others, *live])

    patch.setattr(replay, "agree", agree)
    patch.setattr(union, "agree", agree)


Mutation = Callable[[pytest.MonkeyPatch], None]

ALL = ("append", "stale", "blind")
MUTATIONS: list[tuple[Mutation, str, tuple[str, ...], int]] = [
    (writes_shown_names, "leaderless", (*ALL, "rename"), 0),
    (writes_shown_names, "writers", (*ALL, "rename"), 0),
    (takes_old_names, "leaderless", (*ALL, "drop", "add", "several"), 0),
    (takes_old_names, "writers", (*ALL, "drop", "add", "several"), 0),
    (says_nothing_of_new_columns, "leaderless", (*ALL, "drop"), 0),
    (says_nothing_of_new_columns, "writers", (*ALL, "drop"), 0),
    (carries_no_definition, "leaderless", (*ALL, "rename", "add", "merge"), 0),
    (forgets_names, "leaderless", (*ALL, "drop", "merge", "sweep"), 9),
    (hides_columns, "leaderless", (*ALL, "rename"), 11),
    (hides_columns, "writers", (*ALL, "rename"), 11),
    (reads_statistics_by_shown_names, "leaderless", (*ALL, "rename"), 0),
    (reads_statistics_by_shown_names, "writers", (*ALL, "rename"), 0),
    (prunes_without_defaults, "leaderless", (*ALL, "add"), 0),
    (prunes_without_defaults, "writers", (*ALL, "add"), 0),
    (shows_null_for_defaults, "leaderless", (*ALL, "add"), 0),
    (deletes_by_shown_names, "writers", (*ALL, "rename", "add", "delete"), 3),
    (prunes_by_the_present_spec, "leaderless, partitioned", ("append", "partition"), 0),
    (prunes_by_the_present_spec, "writers, partitioned", ("append", "partition"), 5),
    (chooses_definitions, "writers", (*ALL, "race"), 0),
    (keeps_the_names_of_today, "leaderless", (*ALL, "rename", "drop", "restore"), 0),
    (keeps_the_names_of_today, "writers", (*ALL, "rename", "drop", "restore"), 0),
    (keeps_no_catalog_up, "writers", (*ALL, "rename"), 0),
    (refuses_types, "leaderless", ("append", "clash"), 0),
    (refuses_types, "writers", ("append", "clash"), 0),
    (skips_values, "leaderless", ("append", "clash"), 0),
    (skips_values, "writers", ("append", "clash"), 0),
    (believes_the_oldest_file, "leaderless", ("clash", "update"), 0),
    (goes_by_writers_names, "writers", ("append", "clash"), 0),
    (asks_dead_files, "leaderless", ("clash", "overwrite"), 0),
    (asks_dead_files, "writers", ("clash", "overwrite"), 0),
]
"""Each with a seed by which it is noticed; later ones are tried, too."""


@pytest.mark.long
@pytest.mark.parametrize(("mutate", "kind", "verbs", "seed"), MUTATIONS)
def test_a_rule_that_is_left_out_is_noticed(
    mutate: Mutation, kind: str, verbs: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By wrong answers, or by a verb that fails."""
    mutate(monkeypatch)
    for number in range(seed, seed + 6):
        try:
            Program(number, verbs=verbs, **TABLES[kind]).run(STEPS)
        except Exception:
            return
    pytest.fail(f"{mutate.__name__} wasn't noticed")
