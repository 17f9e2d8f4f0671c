"""After an erasure and a sweep no object holds an erased value: not in data files, logs, statistics, bounds, filters,
markers, checkpoints, batches, summaries, SSTs, manifests, rows, index entries, records or packs; nor in any name.

Values are planted among others, by the seed of each example, and looked for in all that is stored."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from firn.lake.table import LakeTable
from firn.records.maintain.collection import sweep_all
from kv_tables import new_table
from lake_journals import LAKES, Lake, LeaderlessLake
from moments import next_millisecond
from planted import Value, found_in
from record_stores import Database as Records
from record_stores import R

LONG_AGO, LATELY = dt.datetime(2001, 1, 1), dt.datetime(2026, 1, 1)


@dataclass(frozen=True)
class Person:
    """Somebody to be erased: what tells of them in a row."""

    name: str
    number: int

    @staticmethod
    def of(chance: random.Random) -> Person:
        return Person(f"pl{chance.getrandbits(80):020x}", chance.getrandbits(62) | 1 << 61)

    @property
    def values(self) -> list[Value]:
        return [self.name, self.number]

    def row(self, i: int) -> dict[str, Any]:
        return {
            "person": self.name,
            "n": self.number,
            "comment": f"{self.name} wrote {i}",
            "at": LONG_AGO,
            "i": i,
        }


def others(i: int) -> list[dict[str, Any]]:
    return [{"person": f"o{k}", "n": k, "comment": f"n{k}", "at": LATELY, "i": k} for k in range(i, i + 7)]


Erase = Callable[[LakeTable, Person], object]
CLEAR = "CASE WHEN person = '{0}' THEN NULL ELSE {1} END AS {1}"


def masked(person: Person) -> str:
    columns = ", ".join(CLEAR.format(person.name, column) for column in ("n", "comment", "person"))
    return f"SELECT * REPLACE ({columns}) FROM "


def both(*steps: Erase) -> Erase:
    return lambda t, p: [step(t, p) for step in steps]


ERASING: Mapping[str, Erase] = {
    "delete": lambda t, p: t.delete(f"person = '{p.name}'", soft=False),
    "delete by number": lambda t, p: t.delete(f"n IN ({p.number}, 99)", soft=False),
    "delete by comment": lambda t, p: t.delete(f"comment LIKE '{p.name} wrote%'", soft=False),
    "delete softly, and merge": both(
        lambda t, p: t.delete(f"comment LIKE '{p.name} wrote%'"), lambda t, p: t.merge()
    ),
    "rewrite": lambda t, p: t.rewrite(f"person <> '{p.name}'"),
    "rewrite by a query": lambda t, p: t.rewrite(masked(p) + "_rows"),
    "merge by a query": lambda t, p: t.merge(query=masked(p) + "source_files"),
    "overwrite": lambda t, p: t.overwrite(others(50)),
    "overwrite where": lambda t, p: t.overwrite(
        [{"person": None, "n": 5}], where=f"person IS NULL OR person = '{p.name}'"
    ),
    "restore": lambda t, p: t.restore(t.history()[0].version),
}
SPECS = ([], ["person"], ["bucket(3, person)"], ["truncate(30, comment)"], ["bucket(2, n)", "person"])


@pytest.mark.parametrize("journal", LAKES)
@settings(max_examples=12, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    spec=st.sampled_from(SPECS),
    verb=st.sampled_from(sorted(ERASING)),
    between=st.lists(
        st.sampled_from(["merge", "checkpoint", "other delete", "person", "others"]), max_size=4
    ),
    after=st.lists(st.sampled_from(["merge", "checkpoint", "other delete", "others"]), max_size=2),
    codec=st.sampled_from(["none", "zstd"]),
)
@example(seed=1, spec=["person"], verb="rewrite", between=[], after=[], codec="none")
@example(seed=2, spec=["person"], verb="rewrite by a query", between=[], after=[], codec="none")
def test_no_object_of_a_lake_table_holds_what_was_erased(
    journal: str, seed: int, spec: list[str], verb: str, between: list[str], after: list[str], codec: str
) -> None:
    lake, person = LAKES[journal](), Person.of(random.Random(seed))
    properties = {"bloom_filters": "person, n", "codec": codec}
    t = lake.create("t", partition_by=spec, sort_by=["n"], properties=properties)
    t.append(others(0), batch_id="first")
    t.append([person.row(1), *others(3), person.row(2)])
    for i, step in enumerate(between):
        STEPS[step](t, person, i)
    t.append([person.row(3)])
    if verb == "merge by a query" and spec not in ([], ["bucket(3, person)"]):
        verb = "rewrite by a query"  # of a partition with one file there is nothing to merge
    assert set(person.values) == {value for _, value in found_in(lake.db.bucket, person.values)}
    ERASING[verb](t, person)
    assert t.scan(where=f"person = '{person.name}' OR n = {person.number}").count() == 0
    for i, step in enumerate(after):
        STEPS[step](t, person, i)
    forget_all(lake, t)
    assert found_in(lake.db.bucket, person.values) == []


STEPS: Mapping[str, Callable[[LakeTable, Person, int], object]] = {
    "merge": lambda t, p, i: t.merge(),
    "checkpoint": lambda t, p, i: t.checkpoint(),
    "other delete": lambda t, p, i: t.delete(f"i = {i}"),
    "person": lambda t, p, i: t.append([p.row(10 + i)]),
    "others": lambda t, p, i: t.append(others(i)),
}


def forget_all(lake: Lake, table: LakeTable) -> None:
    """As `docs/howto/erase-a-person.md` has it."""
    next_millisecond()
    if isinstance(lake, LeaderlessLake):
        table.sweep(older_than="0s", orphans="0s")
    else:
        for i in range(2):
            table.append(others(i))
        lake.db.prune("0s")
        lake.db.sweep("0s")
    table.checkpoint()


@pytest.mark.parametrize("journal", LAKES)
def test_no_object_holds_what_was_in_a_damaged_file(journal: str) -> None:
    lake, person = LAKES[journal](), Person("pl" + "7" * 20, 1 << 61)
    t = lake.create("t", partition_by=["person"])
    t.append([*others(0), person.row(1)])
    (lost,) = (file.path for file in t.scan(where=f"n = {person.number}").files())
    lake.db.bucket.put(lost, b"not Parquet")
    t.forget_files(lost)
    forget_all(lake, t)
    if journal == "writer":
        assert lake.db.sweep("0s", dry_run=True).kept_foreign == (lost,)
        lake.db.bucket.delete(lost)  # whose it is can't be told any more
        lake.db.sweep("0s")
    assert found_in(lake.db.bucket, person.values) == []


@pytest.mark.parametrize("journal", LAKES)
@pytest.mark.parametrize("spec", [["person"], ["day(at)", "person"]])
def test_no_object_holds_what_went_with_its_partition(journal: str, spec: list[str]) -> None:
    for verb in ("remove", "expire", "touched"):
        lake, person = LAKES[journal](), Person.of(random.Random(verb))
        if verb == "expire" and spec == ["person"]:
            continue
        t = lake.create("t", partition_by=spec, properties={"retention": "30d"})
        t.append([person.row(1), *others(0)])
        t.append([person.row(2)])
        if verb == "remove":
            t.remove_partitions(f"person = '{person.name}'")
        elif verb == "expire":
            t.expire()
        else:
            t.overwrite([person.row(0)], partitions="touched")
            t.delete(f"n = {person.number}", soft=False)
        forget_all(lake, t)
        assert found_in(lake.db.bucket, person.values) == []


KEYED: Mapping[str, Erase] = {
    "delete": lambda t, p: t.delete(f"person = '{p.name}'"),
    "delete_keys": lambda t, p: t.delete_keys([{"person": p.name}]),
    "overwrite": lambda t, p: t.overwrite(others(0)),
}


@pytest.mark.parametrize("journal", LAKES)
@pytest.mark.parametrize("verb", [*KEYED, "update"])
@pytest.mark.parametrize("spec", [[], ["person"], ["bucket(2, person)"]])
def test_no_object_of_a_table_with_a_key_holds_what_was_erased(
    journal: str, verb: str, spec: list[str]
) -> None:
    lake, person = LAKES[journal](), Person.of(random.Random(verb))
    properties = {"delete_retention": "0s", "bloom_filters": "person, n"}
    t = lake.create("t", key=["person"], partition_by=spec, properties=properties)
    for i in range(3):
        t.upsert([person.row(i), *others(i)])
    if verb == "update":
        t.update(f"n = {person.number}", {"n": "0", "comment": "NULL"})
    else:
        KEYED[verb](t, person)
    for _ in range(2):
        t.merge()
    forget_all(lake, t)
    values = person.values if verb != "update" else [person.number, f"{person.name} wrote"]
    assert found_in(lake.db.bucket, values) == []


@settings(max_examples=6, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    compression=st.sampled_from(["zstd", "none"]),
    flushes=st.lists(st.lists(st.sampled_from(["key", "value", "other", "others"]), max_size=4), max_size=4),
    compacted=st.booleans(),
)
def test_no_object_of_a_keyed_table_holds_what_was_erased(
    seed: int, compression: str, flushes: list[list[str]], compacted: bool
) -> None:
    chance = random.Random(seed)
    person = Person.of(chance)
    t = new_table({"compression": compression, "sst_size": "4KB"})
    key, number = person.name.encode(), str(person.number).encode()
    with t.open() as kv:
        kv.put(key, number)
        for flush in flushes:
            for step in flush:
                if step == "key":
                    kv.put(key, number + chance.randbytes(8))
                elif step == "value":
                    kv.put(b"other", key)
                elif step == "other":
                    kv.delete(b"other")
                else:
                    for _ in range(60):
                        kv.put(chance.randbytes(9), chance.randbytes(60))
            kv.flush()
        if compacted:
            t.compact()
        assert {key.decode(), int(number)} == {v for _, v in found_in(t.journal.bucket, person.values)}
        kv.delete(key)
        kv.put(b"other", b"")
    t.compact(full=True)
    t.sweep(older_than="0s")
    assert found_in(t.journal.bucket, person.values) == []


def test_no_object_of_record_tables_holds_what_was_erased_but_for_ids() -> None:
    person = Person.of(random.Random(7))
    db = Records(properties={"inline": "100B"})
    db.put(a={"n": person.number, "u": person.name}, b={"n": 1}, c={"n": 2, "u": person.name + "c"})
    db.apply()
    db.put(a={"n": 1, "text": person.name * 20})
    db.put(**{person.name: {"n": 3}})
    assert set(person.values) == {value for _, value in found_in(db.bucket(), person.values)}
    db.put(a={"n": 4}, c=None, **{person.name: None})
    db.put(b={"n": 9})
    for _ in range(2):
        db.age(R + 5)
        sweep_all(db.store(), older_than=0, orphans=0)
    left = found_in(db.bucket(), person.values)
    assert left == [(db.store().layout("t", 0).row(person.name), person.name)], "a deleted row's id stays"
