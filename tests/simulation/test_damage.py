"""Each object of tables of every kind, damaged in each way: reads answer right or name it, `fsck` finds it, and what
they advise helps.

Of each object's damages one is drawn by a seed; `make soak` does all. Which bits of an object matter is tried beside
its format: `test_sst_damage`, `test_lake_08_small_objects`, `test_record_damage`.
"""

from __future__ import annotations

import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.bucket.base import Bucket
from firn.degraded import forget_warnings
from firn.inspect.fsck.fsck import check
from record_databases import ROWS, of_every_object
from simulation.seeds import first_seed, seeds, soak_seconds

Objects = dict[str, bytes]
Answers = dict[str, Callable[[], object]]

DAMAGES: Mapping[str, Callable[[bytes, random.Random], bytes | None]] = {
    "cut": lambda body, rng: body[: rng.randrange(1, len(body))] if len(body) > 1 else b"",
    "flipped": lambda body, rng: flipped(body, rng.randrange(len(body)), rng.randrange(8)),
    "emptied": lambda body, rng: b"",
    "deleted": lambda body, rng: None,
}


def flipped(body: bytes, at: int, bit: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]


def connect(url: str, **options: Any) -> firn.Database:
    return firn.connect(url, **options)


def contents(bucket: Bucket) -> Objects:
    return {info.key: bucket.get(info.key).data for info in bucket.list("").objects}


def put_back(bucket: Bucket, objects: Objects) -> None:
    for info in bucket.list("").objects:
        if info.key not in objects:
            bucket.delete(info.key)
    for key, body in objects.items():
        bucket.put(key, body)


# -- databases of one table


def fill_lake(url: str) -> None:
    table = connect(url).create_table("t", partition_by=["d"], schema={"n": "BIGINT", "d": "VARCHAR"})
    _fill_lake(table)


def fill_shared(url: str) -> None:
    table = connect(url).create_table("t", properties={"shared": "icedb"})
    for n in range(3):
        table.append([{"n": n, "d": "x"}])
    table.merge()
    table.append([{"n": 3, "d": "x"}])
    table.sweep(older_than="0s")


def fill_with_key(url: str) -> None:
    _fill_lake(connect(url).create_table("t", key=["n"]))


def _fill_lake(table: Any) -> None:
    """Merged, swept and checkpointed logs, and two appends above them, one with a batch."""
    for n in range(3):
        table.append([{"n": n, "d": "x"}])
    table.merge()
    table.delete("n = 1")
    table.sweep(older_than="0s")
    table.append([{"n": 3, "d": "y"}])
    table.checkpoint()
    table.append([{"n": 4, "d": "y"}], batch_id="b")
    table.append([{"n": 5, "d": "y"}])


def fill_writers(url: str) -> None:
    a, b = connect(url, writer="a"), connect(url, writer="b")
    table = a.create_table("t", journal="writer", partition_by=["d"])
    table.append([{"n": 0, "d": "x"}, {"n": 1, "d": "x"}])
    table.append([{"n": 2, "d": "x"}])
    table.merge()
    a.checkpoint()
    table.delete("n = 1")
    table.append([{"n": 4, "d": "y"}], batch_id="b")
    b.table("t").append([{"n": 3, "d": "y"}])
    b.table("t").append([{"n": 5, "d": "y"}])


def fill_keyed(url: str) -> None:
    """A run, flushes above it, snapshots before both, and a clone with a flush of its own."""
    db = connect(url)
    table = db.create_table("t", kind="keyed", merge_operator="add", properties={"flush_ms": 5})
    with table.open(compaction=False) as kv:
        for n in range(50):
            kv.put(b"%02d" % n, b"1", durable=False)
        kv.flush()
        kv.delete(b"07")
    table.compact(full=True)
    table.checkpoint("first")
    with table.open(compaction=False) as kv:
        kv.put(b"00", b"2")
        kv.merge(b"01", b"2")
    table.checkpoint("second")
    with table.clone("c", at="first").open(compaction=False) as kv:
        kv.put(b"00", b"3")
    for each in (table, db.table("c")):  # a writer that has seen all this, and put nothing
        each.open(compaction=False).close()


def fill_records(url: str) -> None:
    store = of_every_object()
    target = connect(url).bucket
    for key in store.keys("db/"):
        target.put(key, store.fetch(key).data)


def fill_rows(url: str) -> None:
    table = connect(url).create_table("t", kind="records", isolation="row")
    for id in "ab":
        table.insert(id, {"n": 1})


def lake_answers(db: firn.Database) -> Answers:
    def rows(**options: Any) -> Any:
        return sorted(db.table("t").scan(**options).to_arrow().to_pylist(), key=str)

    return {
        "tables": db.tables,
        "scan": rows,
        "filtered": lambda: rows(where="n > 3"),
        "count": lambda: db.table("t").scan().count(),
        "batches": lambda: sum(batch.num_rows for batch in db.table("t").scan().to_batches()),
        "schema": lambda: str(db.table("t").schema()),
        "history": lambda: [(line.version, line.op) for line in db.table("t").history()],
    }


def keyed_answers(db: firn.Database) -> Answers:
    def table(name: str = "t") -> Any:
        return db.table(name)

    return {
        "tables": db.tables,
        "scan": lambda: dict(table().reader().scan()),
        "get": lambda: [table().reader().get(b"%02d" % n) for n in (0, 1, 7, 8)],
        "multi_get": lambda: table().reader().multi_get([b"00", b"49", b"no"]),
        "prefix": lambda: dict(table().reader().scan_prefix(b"0")),
        "first": lambda: dict(table().reader(at="first").scan()),
        "second": lambda: dict(table().reader(at="second").scan()),
        "clone": lambda: dict(table("c").reader().scan()),
        "checkpoints": lambda: [each.name for each in table().checkpoints()],
        "history": lambda: [line.version for line in table().history()],
    }


def record_answers(db: firn.Database) -> Answers:
    def row(id: str) -> object:
        try:
            return db.table("t").get(id).document
        except firn.NoSuchKeyError:
            return None

    found: Answers = {id: (lambda id=id: row(id)) for id in (*ROWS, "eve", "a", "b")}
    for where in ({"n": 1}, {"n": 2}, {"email": "ada@example.com"}, {"email": None}):
        found[str(where)] = lambda where=where: sorted(r.id for r in db.table("t").find(where))
    return {
        **found,
        "tables": db.tables,
        "scan": lambda: {row.id: row.document for row in db.table("t").scan()},
        "count": lambda: db.table("t").count({"n": 2}),
        "indices": lambda: getattr(db.table("t"), "indices", list)(),
    }


def row_answers(db: firn.Database) -> Answers:
    def row(id: str) -> object:
        try:
            return db.table("t").get(id).document
        except firn.NoSuchKeyError:
            return None

    return {
        **{id: (lambda id=id: row(id)) for id in ("a", "b", "c")},
        "tables": db.tables,
    }


KINDS: Mapping[str, tuple[Callable[[str], None], Callable[[firn.Database], Answers]]] = {
    "lake": (fill_lake, lake_answers),
    "lake with a key": (fill_with_key, lake_answers),
    "shared lake": (fill_shared, lake_answers),
    "writers' lake": (fill_writers, lake_answers),
    "keyed": (fill_keyed, keyed_answers),
    "records": (fill_records, record_answers),
    "rows": (fill_rows, row_answers),
}


# -- what becomes of damaged objects


@dataclass(frozen=True)
class Class:
    """Objects of one class. Each damage that isn't excepted here is an error that names the object, or harmless, and
    `fsck` finds it.

    `hidden` damages readers can't tell from what never was; what `fsck` leaves `unseen` nobody needs, or nobody can
    tell; `why` says so. `mend` is what the error or `fsck` advises; None: to copy the object back from a backup.
    `loses`: rows are gone for good then.
    """

    pattern: str
    mend: Callable[[firn.Database, str], object] | None = None
    loses: bool = False
    hidden: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    why: str = ""


ALL = tuple(DAMAGES)
THERE = ("cut", "flipped", "emptied")
GONE = ("deleted",)


def delete_it(db: firn.Database, key: str) -> None:
    db.bucket.delete(key)


def mend(db: firn.Database, key: str) -> None:
    db.mend_table("t")


def forget(db: firn.Database, key: str) -> None:
    db.table("t").forget_files([key])


def mend_or_forget(db: firn.Database, key: str) -> None:
    """A log that nobody has a copy of is let go by its name."""
    try:
        db.mend_table("t")
    except firn.CorruptObjectError:
        forget(db, key)


def append_again(db: firn.Database, key: str) -> None:
    """By each writer: what the object would have told, they write anew."""
    for writer in "ab":
        connect(db.url, writer=writer).table("t").append([{"n": -1, "d": "y"}])
        connect(db.url, writer=writer).table("t").delete("n = -1", soft=False)


def rebuild(db: firn.Database, key: str) -> None:
    writer = key.split("/")[1]
    connect(db.url, writer=writer).rebuild()


def forget_own(db: firn.Database, key: str) -> None:
    connect(db.url, writer=key.split("/")[1]).table("t").forget_files([key])


def repair_row(db: firn.Database, key: str) -> None:
    id = key.rpartition("/")[2].removesuffix(".json")
    db.table("t").repair_rows([id], forget=True)


def index_again(db: firn.Database, key: str) -> None:
    field = key.split("/")[3]
    table = db.table("t")
    table.drop_index(field)
    table.create_index(field, unique=field == "email")


def say_again(db: firn.Database, key: str) -> None:
    """What it was; the log knows its indices."""
    db.bucket.delete(key)
    isolation = "snapshot" if db.bucket.list("db/_firn/horizon").objects else "row"
    with pytest.raises(firn.TableExistsError):
        db.create_table("t", kind="records", isolation=isolation, properties={"inline": "60B"})


LAKE = [
    Class(
        r"/_data/.*\.parquet$",
        forget,
        loses=True,
        unseen=("flipped",),
        why="fsck reads sizes and footers; readers check the pages that they read",
    ),
    Class(
        r"/_log/.*\.jsonl$",
        mend_or_forget,
        loses=True,
        hidden=GONE,
        unseen=GONE,
        why="a log is the commit: without it the commit never was, and its files are orphans",
    ),
    Class(r"/_firn/table\.json$", mend),
    Class(
        r"/_firn/sweep\.json$",
        mend,
        hidden=GONE,
        unseen=GONE,
        why="as if nobody had swept; no row of now is in it",
    ),
    Class(r"/_firn/lock\.json$", delete_it, unseen=GONE, why="nobody holds it then"),
    Class(r"/_firn/checkpoint\.bin$", delete_it, unseen=GONE, why="a cache of the logs"),
    Class(r"/_firn/batches/", delete_it, unseen=GONE, why="a batch that is retried looks in the log, too"),
]
CLASSES: Mapping[str, list[Class]] = {
    "lake": LAKE,
    "lake with a key": LAKE,
    "shared lake": [
        Class(
            r"/_firn/table\.json$",
            delete_it,
            unseen=GONE,
            why="the reference writes none: the defaults are read then",
        ),
        *LAKE,
    ],
    "writers' lake": [
        Class(r"/_firn/database\.json$", append_again),
        Class(
            r"/_firn/newest-checkpoint$", append_again, unseen=ALL, why="a hint, of which fsck makes a note"
        ),
        Class(
            r"/claims/",
            unseen=GONE,
            why="below the newest one they are only there until a sweep takes them",
        ),
        Class(
            r"/markers/.*\.parquet$",
            unseen=("flipped", "deleted"),
            why="only a rebuild reads them, and of these its own columns; fsck makes a note of lost ones",
        ),
        Class(
            r"\.checkpoint$",
            delete_it,
            unseen=GONE,
            why="a cache of the transactions, of which fsck makes a note",
        ),
        Class(
            r"\.transaction$",
            rebuild,
            hidden=GONE,
            unseen=GONE,
            why="the newest is as if it had never been, until its writer finds its claim; below a checkpoint "
            "it is as if it had been pruned. fsck names the revision",
        ),
        Class(
            r"/data/.*\.parquet$",
            forget_own,
            loses=True,
            unseen=("flipped",),
            why="fsck reads sizes and footers; readers check the pages that they read",
        ),
    ],
    "keyed": [
        Class(r"/_firn/table\.json$"),
        Class(r"/current_manifest$"),
        Class(r"/manifests/"),
        Class(
            r"/snapshots/",
            hidden=GONE,
            unseen=GONE,
            why="a checkpoint that isn't there was deleted: nothing else names it",
        ),
        Class(
            r"/l0/",
            hidden=("emptied", "deleted"),
            unseen=ALL,
            why="an empty one is a fence, and without the newest ones nobody put them; fsck knows those that a "
            "later writer has seen. Compacted ones nobody reads",
        ),
        Class(r"/ssts/"),
    ],
    "records": [
        Class(
            r"/_commits/",
            hidden=GONE,
            unseen=GONE,
            why="the newest commit is as if it had never been",
        ),
        Class(r"/_firn/clock$", delete_it, unseen=ALL, why="only its age tells something"),
        Class(r"/_firn/horizon$"),
        Class(r"/_firn/packs/", unseen=GONE, why="as if it had been deleted as too old"),
        Class(r"/_firn/bodies/"),
        Class(r"/t/_firn/table\.json$", say_again),
        Class(r"/locks/", delete_it, unseen=ALL, why="advisory, and they expire; who locks the row is told"),
        Class(
            r"/t/data/",
            repair_row,
            loses=True,
            hidden=GONE,
            why="a row that isn't there was deleted, unless an entry or the log has it: fsck looks there",
        ),
        Class(
            r"/indices/",
            index_again,
            hidden=GONE,
            why="readers look at rows that entries name; fsck looks at all rows",
        ),
    ],
    "rows": [
        Class(r"/_commits/", unseen=ALL, why="who makes a record table reads it, and is told"),
        Class(r"/t/_firn/table\.json$", say_again),
        Class(
            r"/t/data/",
            repair_row,
            loses=True,
            hidden=GONE,
            unseen=GONE,
            why="no log says that the row was ever there",
        ),
    ],
}


def class_of(kind: str, key: str) -> Class:
    """Each object is of a class: one that is new is thought about here."""
    return next(each for each in CLASSES[kind] if re.search(each.pattern, key))


@cache
def made(kind: str) -> tuple[str, Objects, dict[str, object]]:
    """A database with one table, all its objects, and what is read there."""
    fill, answers = KINDS[kind]
    url = f"memory://{uuid4().hex}/db"
    fill(url)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truth = {name: read() for name, read in answers(connect(url)).items()}
    assert check(connect(url), blocks=True).problems == ()
    return url, contents(connect(url).bucket), truth


def damaged(kind: str, harms: int, seed: int) -> Iterator[tuple[firn.Database, str, str]]:
    """The database with one object damaged, in `harms` ways each."""
    url, objects, _ = made(kind)
    rng = random.Random(f"damage {kind} {seed}")
    for key in sorted(objects):
        possible = [name for name in DAMAGES if objects[key] or name == "deleted"]
        for name in rng.sample(possible, min(harms, len(possible))):
            db = connect(url)
            put_back(db.bucket, objects)
            harmed = DAMAGES[name](objects[key], rng)
            db.bucket.delete(key) if harmed is None else db.bucket.put(key, harmed)
            yield db, key, name


def look(kind: str, db: firn.Database, key: str) -> tuple[dict[str, object], list[str]]:
    """What is read, and what errors or warnings there were that don't name the object."""
    found, unnamed = {}, []
    for name, read in KINDS[kind][1](connect(db.url)).items():
        forget_warnings()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found[name] = read()
            except firn.FirnError as error:
                said = str(error)
            else:
                said = " ".join(str(w.message) for w in warned)
                if not said or found[name] == made(kind)[2][name]:
                    continue
                del found[name]
        if not is_named(key, said):
            unnamed.append(f"{name}: {said}")
    return found, unnamed


def is_named(key: str, said: str) -> bool:
    """By its key, or a transaction by its revision."""
    revision = re.search(r"/transactions/0*(\d+)\.", key)
    return key in said or (revision is not None and f"revision {revision[1]} is missing" in said)


def check_damages(kind: str, harms: int, seed: int) -> None:
    _, _, truth = made(kind)
    for db, key, harm in damaged(kind, harms, seed):
        each, what = class_of(kind, key), f"seed {seed}: {key} {harm}"
        found, unnamed = look(kind, db, key)
        if key.endswith("table.json"):
            found.pop("tables", None)  # without a definition nothing but a lake's log is listed
        wrong = {name: answer for name, answer in found.items() if answer != truth[name]}
        if harm not in each.hidden:
            assert not wrong, f"{what}: {wrong}"
            assert not unnamed, f"{what}: {unnamed}"
        problems = " ".join(map(str, check(connect(db.url), blocks=True).problems))
        assert key in problems or harm in each.unseen, f"{what}: fsck says {problems}"
        affected = wrong or unnamed or found.keys() < truth.keys()
        # An old version's file is no loss for what is read now.
        if each.mend is not None and (affected or (key in problems and not each.loses)):
            each.mend(connect(db.url), key)
            after, _ = look(kind, db, key)
            for name in ("scan", "count") if not each.loses else ("scan",):
                if name in truth:
                    assert name in after, f"{what}: it can't be read after it was mended"
                    assert each.loses or harm in each.hidden or after[name] == truth[name], (
                        f"{what}: {after[name]}"
                    )
            left = [
                problem
                for problem in check(connect(db.url), blocks=True).problems
                if key in str(problem) and "read as of revision" not in problem.what
            ]
            assert not left, f"{what}: {left} after it was mended"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_object_is_named_found_and_mended(kind: str) -> None:
    check_damages(kind, 1, first_seed())


@pytest.mark.soak
def test_soak() -> None:
    ends = time.monotonic() + soak_seconds()
    for seed, kind in product(seeds(1), KINDS):
        check_damages(kind, len(DAMAGES), seed)
        if time.monotonic() > ends:
            break
