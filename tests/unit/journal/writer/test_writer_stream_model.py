"""Random histories of several writers and a stream over them: each appended row once, and batches that repeat."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import firn
from firn.journal.model import DataFile
from firn.journal.position import Offset, StreamPosition
from firn.journal.writer.stream import VectorOffset
from firn.lake.read.read import ReadSpec, read_table
from seeds import seeds

SPEC = ReadSpec(columns={"id": "BIGINT"}, table_columns={"id": "BIGINT"})


class World:
    """Writers of one table, each connection remembered; `deleted` are rows that a soft delete took."""

    def __init__(self, seed: int, url: str, inline: str = "0") -> None:
        self.random, self.inline = random.Random(seed), inline
        self.url = url
        self.dbs = {name: firn.connect(url, writer=name) for name in ("a", "b", "c")}
        properties = {"inline": inline, "checkpoint_every": 7}
        self.dbs["a"].create_table("t", journal="writer", schema={"id": "BIGINT"}, properties=properties)
        self.dbs["a"].create_table("other", journal="writer")
        self.appended: list[int] = []
        self.deleted: set[int] = set()

    def new_rows(self) -> list[dict[str, int]]:
        first = len(self.appended)
        rows = list(range(first, first + self.random.randint(1, 3)))
        self.appended += rows
        return [{"id": row} for row in rows]

    def doomed(self, writer: str) -> list[int]:
        mine = [row["id"] for row in self.own_rows(writer)]
        return self.random.sample(mine, min(len(mine), 2))

    def own_rows(self, writer: str) -> list[dict[str, int]]:
        table = self.dbs[writer].table("t")
        files = [file for file in table.snapshot().files if table.journal.owns(file.path)]
        found: list[dict[str, int]] = read_table(table.bucket, files, SPEC).to_pylist()
        return found

    def act(self) -> None:
        writer = self.random.choice(["a", "b", "c"])
        db = self.dbs[writer]
        table = db.table("t")
        kinds = ["append"] * 4 + ["merge", "delete", "rewrite", "transaction", "elsewhere"]
        kind = self.random.choice(kinds + (["fold"] if self.inline != "0" else []))
        if kind == "append":
            table.append(self.new_rows())
        elif kind == "merge":
            table.merge()
        elif kind == "fold":
            table.merge(only="inlined")
        elif kind == "delete" and (ids := self.doomed(writer)):
            table.delete(f"id IN ({', '.join(map(str, ids))})")
            self.deleted.update(ids)
        elif kind == "rewrite":
            table.rewrite("SELECT * FROM _rows")
        elif kind == "transaction":
            with db.writer_transaction() as tx:
                tx.append("t", self.new_rows())
                if self.random.random() < 0.5:
                    tx.table("t").merge()
                tx.append("t", self.new_rows())
        elif kind == "elsewhere" and writer == "a":
            db.table("other").append([{"id": -1}])


@pytest.mark.parametrize("inline", ["0", "64KB"])
@pytest.mark.parametrize("seed", seeds(12, short=3))
def test_each_row_once_whatever_is_done_meanwhile(seed: int, inline: str) -> None:
    url = f"memory://stream-model-{seed}-{inline}"
    world = World(seed, url, inline)
    reader = firn.connect(url).table("t")
    rand = world.random
    stream: StreamPosition[VectorOffset] = StreamPosition(reader.journal.stream())

    def ids(files: list[DataFile]) -> list[int]:
        return sorted(read_table(reader.bucket, files, SPEC)["id"].to_pylist()) if files else []

    for _ in range(rand.randint(0, 6)):
        world.act()
    gone_before = set(world.deleted)
    delivered: Counter[int] = Counter()
    batches: list[tuple[Offset[VectorOffset] | None, Offset[VectorOffset], list[int]]] = []
    offset = stream.begin(rand.choice([None, 1, 2]))
    batches.append((None, offset, ids(stream.delivered(None, offset).files)))
    delivered.update(batches[-1][2])
    for turn in range(40):
        if turn < 30:
            world.act()
        if rand.random() < 0.2:  # another process goes on
            stream = StreamPosition(firn.connect(url).table("t").journal.stream())
        if turn < 30 and rand.random() < 0.75:
            continue
        after = stream.advance(offset, None if turn > 35 else rand.choice([None, 1, 2, 4]))
        if after is None:
            continue
        rows = ids(stream.delivered(offset, after).files)
        batches.append((offset, after, rows))
        delivered.update(rows)
        offset = after
    assert max(delivered.values(), default=1) == 1, "no row twice"
    assert delivered.keys() <= set(world.appended) and not delivered.keys() & gone_before
    assert set(world.appended) - world.deleted <= delivered.keys(), "no row lost"
    again = StreamPosition(firn.connect(url).table("t").journal.stream())
    for before, after, rows in batches:
        assert ids(again.delivered(before, after).files) == rows
