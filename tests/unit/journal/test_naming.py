"""Names of columns: each is shown once, and no column hides behind another."""

from __future__ import annotations

import random

from firn.journal.entries import DROP, NAME, Entries
from firn.journal.naming import Naming, name_columns
from firn.names import fold


def named(entries: dict[tuple[str, str], object], *columns: str, **options: object) -> dict[str, str]:
    """Physical name → name."""
    found = name_columns(columns, Entries().changed(entries), **options)  # type: ignore[arg-type]
    return {physical: found.shown(physical) for physical in columns if physical not in found.hidden}


def test_the_earliest_entry_has_a_name() -> None:
    entries = Entries().changed({(NAME, "b"): "x"}, "z").changed({(NAME, "a"): "x"}, "a")
    found = name_columns(["a", "b"], entries)
    assert found.stored == {"x~1": "a", "x": "b"} and len(found.warnings) == 1
    assert "alter(rename=" in found.warnings[0]


def test_of_two_entries_of_one_clock_the_lesser_writers_has_a_name() -> None:
    one = Entries().changed({(NAME, "a"): "x"}, "w")
    other = Entries().changed({(NAME, "b"): "x"}, "v")
    assert name_columns(["a", "b"], one.joined(other)).stored == {"x~1": "a", "x": "b"}


def test_an_entry_goes_before_a_declared_column_and_that_before_what_appeared() -> None:
    assert named({(NAME, "b"): "a"}, "a", "b", declared=["a"]) == {"a": "a~1", "b": "a"}
    noted = {"c~1": "b", "d": "b"}
    assert named({(DROP, "x"): True}, "c~1", "d", "b", declared=["b"], noted=noted) == {
        "c~1": "b~1",
        "d": "b~2",
        "b": "b",
    }
    assert named({(DROP, "x"): True}, "c~1", "d", "b", noted=noted) == {"c~1": "b", "d": "b~1", "b": "b~2"}


def test_names_that_fold_alike_are_one() -> None:
    assert named({(NAME, "b"): "Ä"}, "ä", "b") == {"ä": "ä~1", "b": "Ä"}


def test_a_number_that_is_taken_is_skipped() -> None:
    assert named({(NAME, "b"): "a"}, "a~1", "a", "b") == {"a~1": "a~1", "a": "a~2", "b": "a"}


def test_what_is_set_aside_is_called_as_in_files_and_goes_with_its_column() -> None:
    entries = {(NAME, "a"): "x", (DROP, "b"): True}
    columns = ["a", "a~double", "b", "b~double", "b~double~date"]
    beside = columns[1:2] + columns[3:]
    found = name_columns(columns, Entries().changed(entries), aside=beside)
    assert found.stored == {"x": "a"} and found.hidden == {"b", "b~double", "b~double~date"}


def test_a_new_column_never_takes_a_name_that_files_have() -> None:
    entries = Entries().changed({(NAME, "a"): "b", (DROP, "c"): True, (NAME, "C~1"): "d"})
    found = name_columns(["a", "c", "C~1"], entries)
    assert [found.physical(name) for name in ("b", "a", "A", "c", "d", "e")] == [
        "a",
        "a~1",
        "a~1",
        "c~2",
        "C~1",
        "e",
    ]
    assert found.brought(["b", "c", "e"]) == {"c~2": "c"}
    assert Naming().physical("x") == "x"


def test_no_column_hides_behind_another() -> None:
    rng = random.Random(1)
    pool = ["a", "d", "b", "a~1", "b~1", "a~double", "c"]
    for _ in range(2_000):
        columns = rng.sample(pool, rng.randint(1, len(pool)))
        entries = Entries()
        for column in columns:
            if rng.random() < 0.5:
                entries = entries.changed({(NAME, column): rng.choice("aAbc")}, rng.choice("vw"))
            if rng.random() < 0.2:
                entries = entries.changed({(DROP, column): True})
        noted = {column: rng.choice("abc") for column in columns if rng.random() < 0.3}
        aside = [column for column in columns if column == "a~double"]
        found = name_columns(columns, entries, declared=columns[:1], aside=aside, noted=noted)
        live = [column for column in columns if column not in found.hidden]
        shown = [found.shown(column) for column in live]
        assert len({fold(name) for name in shown}) == len(live), (columns, entries, noted, shown)
        assert [found.physical(name) for name in shown] == live, (columns, entries, noted, shown)
        new = found.physical(rng.choice(["a", "b", "z"]))
        assert new in live or fold(new) not in {fold(column) for column in columns}
