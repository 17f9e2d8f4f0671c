"""What a union of writers is doesn't depend on how the store lists them, nor on who merged what and when."""

from __future__ import annotations

import random
from typing import Any

import pytest

import firn
from firn.bucket.base import Listing
from firn.lake.table import LakeTable
from lake_journals import EVERY_LAKE, Lake
from seeds import seeds

WRITERS = ("ann", "bob", "cyd", "w")
WRITER_LAKES = [name for name in EVERY_LAKE if name != "leaderless"]


def connected(lake: Lake, writer: str) -> LakeTable:
    return lake.connect(writer).table("t")


def content(table: LakeTable, **scan: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(**scan).to_arrow().to_pylist())


# -- the order of listings


def lived(lake: Lake) -> None:
    """Four writers' tables: columns that each had alone, soft deletes, merges, checkpoints, prunes."""
    lake.create("t", schema={"id": "BIGINT"}, partition_by=["bucket(2, id)"])
    lake.create("u").append([{"id": 1}])
    for number, writer in enumerate(WRITERS):
        db = lake.connect(writer)
        table = db.table("t")
        for batch in range(3):
            table.append([{"id": 100 * number + 10 * batch + n, f"only_{writer}": n} for n in range(4)])
        table.delete(f"id = {100 * number + 11}")
        table.merge(partitions=table.partitions()[:1])
        table.append([{"id": 100 * number + 50}])
        if number % 2:
            table.checkpoint()
            db.prune("0s")


def shuffle_listings(db: firn.Database, seed: int, pages: int) -> None:
    """The store answers each LIST in another order; as if it were of one page, or of several."""
    chance = random.Random(seed)
    plain, plain_dirs = db.bucket.list, db.bucket.list_dirs

    def shuffled(prefix: str, *, after: str | None = None) -> Listing:
        objects = list(plain(prefix, after=after).objects)
        chance.shuffle(objects)
        return Listing(tuple(objects), atomic=pages == 1)

    def shuffled_dirs(prefix: str) -> list[str]:
        found = plain_dirs(prefix)
        chance.shuffle(found)
        return found

    db.bucket.list, db.bucket.list_dirs = shuffled, shuffled_dirs  # type: ignore[method-assign]


def seen(db: firn.Database, at: str | None = None) -> list[Any]:
    """All that a reader can tell, with everything that has an order in it."""
    table = db.table("t")
    snapshot = table.snapshot(at)
    return [
        db.tables(),
        [(w.name, w.revision, w.health) for w in db.writers()],
        (
            snapshot.version,
            snapshot.time_ms,
            list(snapshot.columns.items()),
            snapshot.files,
            snapshot.warnings,
        ),
        [(line.version, line.op, line.rows_added) for line in table.history()],
        content(table, at=at),
    ]


@pytest.mark.parametrize("kind", WRITER_LAKES)
@pytest.mark.parametrize("pages", [1, 2])
def test_the_order_of_listings_changes_nothing(kind: str, pages: int) -> None:
    lake = EVERY_LAKE[kind]()
    lived(lake)
    before = lake.db.table("t").snapshot().version
    for writer in WRITERS:
        connected(lake, writer).append([{"id": 1000}])
    expected = seen(lake.connect()), seen(lake.connect(), at=before)
    assert len(expected[0][-1]) == len(WRITERS) * 13 and expected[0][-1] != expected[1][-1]
    for seed in range(6):
        db = lake.connect()
        shuffle_listings(db, seed, pages)
        assert (seen(db), seen(db, at=before)) == expected, f"seed {seed}"


# -- versions of one key by several writers


class Versions:
    """What the greatest clock says of each key, of all commits that ever were: of the number, then of the writer."""

    def __init__(self, reader: LakeTable) -> None:
        self.reader = reader
        self.seen: set[str] = set()
        self.newest: dict[int, tuple[str, int | None]] = {}

    def note(self, writer: str, rows: dict[int, int | None]) -> None:
        """A commit of this writer gave these keys these values, None to those that it deleted."""
        for file in self.reader.snapshot().files:
            if file.path not in self.seen:
                assert file.clocks is not None
                clock = file.clocks[0]
                assert clock[20:].startswith(f"_{writer}")
                for key, value in rows.items():
                    self.newest[key] = max(
                        self.newest.get(key, ("", None)), (clock, value), key=lambda v: v[0]
                    )
        self.look()

    def look(self) -> None:
        self.seen |= {file.path for file in self.reader.snapshot().files}

    def content(self) -> list[tuple[int, int]]:
        return sorted((key, value) for key, (_, value) in self.newest.items() if value is not None)


def blind(lake: Lake) -> None:
    """Creates a table with a key whose writers see each other's appends only when they read."""
    definition = {"schema": {"k": "BIGINT", "n": "BIGINT"}, "key": ["k"]}
    lake.create("t", **definition, properties={"schema_refresh": "1d"})


@pytest.mark.parametrize("kind", WRITER_LAKES)
@pytest.mark.parametrize("seed", seeds(8, short=2))
def test_the_greatest_clock_of_all_writers_wins_before_and_after_merges(kind: str, seed: int) -> None:
    chance = random.Random(seed)
    lake = EVERY_LAKE[kind]()
    blind(lake)
    tables = {writer: connected(lake, writer) for writer in ("a", "b")}
    reader = lake.connect().table("t")
    versions = Versions(reader)
    for number in range(24):
        writer = chance.choice("aab")  # so one is ahead of the other in revisions
        table = tables[writer]
        keys = chance.sample(range(4), 2)
        match chance.choice(["upsert", "upsert", "upsert", "delete", "merge", "open"]):
            case "upsert":
                table.upsert([{"k": key, "n": number} for key in keys])
                versions.note(writer, dict.fromkeys(keys, number))
            case "delete":
                table.delete_keys([{"k": key} for key in keys])
                versions.note(writer, dict.fromkeys(keys))
            case "merge":
                table.merge()
            case "open":
                table.checkpoint()
                tables[writer] = connected(lake, writer)
        versions.look()
        for each in (reader, lake.connect().table("t")):
            assert content(each) == versions.content(), f"seed {seed}, step {number}"
    for writer in chance.sample(["a", "b"], 2):
        tables[writer].merge()
        assert content(lake.connect().table("t")) == versions.content(), f"seed {seed}, {writer} merged"


@pytest.mark.parametrize("kind", WRITER_LAKES)
@pytest.mark.parametrize("seed", seeds(4, short=1))
def test_the_latest_change_of_any_writer_wins_before_and_after_merges(kind: str, seed: int) -> None:
    """Each has read what the others did, so it makes no difference who is ahead in revisions."""
    chance = random.Random(seed)
    lake = EVERY_LAKE[kind]()
    lake.create("t", schema={"k": "BIGINT", "n": "BIGINT"}, key=["k"])
    tables = {writer: connected(lake, writer) for writer in ("a", "b")}
    truth: dict[int, int] = {}
    for number in range(24):
        writer = chance.choice("aaab")  # so one is ahead of the other in revisions
        table = tables[writer]
        keys = chance.sample(range(4), 2)
        match chance.choice(["upsert", "upsert", "upsert", "delete", "merge", "open"]):
            case "upsert":
                table.upsert([{"k": key, "n": number} for key in keys])
                truth.update(dict.fromkeys(keys, number))
            case "delete":
                table.delete_keys([{"k": key} for key in keys])
                truth = {key: value for key, value in truth.items() if key not in keys}
            case "merge":
                table.merge()
            case "open":
                table.checkpoint()
                tables[writer] = connected(lake, writer)
        for reader in (lake.connect().table("t"), *tables.values()):
            assert content(reader) == sorted(truth.items()), f"seed {seed}, step {number}"
    for writer in chance.sample(["a", "b"], 2):
        tables[writer].merge()
        assert content(lake.connect().table("t")) == sorted(truth.items()), f"seed {seed}, {writer} merged"


def test_of_writers_that_havent_seen_each_other_the_greater_one_wins() -> None:
    lake = EVERY_LAKE["writer"]()
    blind(lake)
    a, b, reader = connected(lake, "a"), connected(lake, "b"), lake.connect().table("t")
    for table in (a, b, a):  # the first commit of each looks at the others, and none from now on
        table.upsert([{"k": 0, "n": 0}])
    b.upsert([{"k": 1, "n": 1}, {"k": 2, "n": 1}])
    a.upsert([{"k": 1, "n": 2}, {"k": 2, "n": 2}])
    upserts = [file.clocks[0][:20] for file in reader.snapshot().files if file.clocks and file.rows == 2]
    assert len(upserts) == 2 and len(set(upserts)) == 1
    assert content(reader) == [(0, 0), (1, 1), (2, 1)], "b's, though it came first"
    a.delete_keys([{"k": 0}, {"k": 1}])
    assert content(reader) == [(2, 1)], "who deletes has seen what there is"
    for table in (b, a, b):
        table.merge()
        assert content(lake.connect().table("t")) == [(2, 1)]
