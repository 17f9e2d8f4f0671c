"""Any sequence of a keyed table's verbs against a dict; reopened, taken over and crashed at random.

Puts that aren't durable may be lost by a crash, but only the last of them: what is left is the state after some of
them, in order. Keys are bytes, or typed ones that sort as these. `FIRN_EXAMPLES` runs more sequences than a test run
has time for, drawn anew each time.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import firn
from firn.errors import (
    FencedError,
    FirnError,
    InvalidInputError,
    ObjectNotFoundError,
    SnapshotTooOldError,
)
from firn.keyed.encoding.entries import DELETE, MERGE, PUT
from firn.keyed.maintain import l0_steps
from firn.keyed.merge import large_pieces
from firn.keyed.merge import versions as merging
from firn.keyed.table import KeyedTable
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.writer import KeyedWriter
from kv_compactors import Interrupted
from kv_twins import Twins
from twins import Loop

State = dict[bytes, int]
Op = tuple[int, bytes, int]

LONG_BYTES, MOST_BYTES = l0_steps.LONG_BYTES, large_pieces.MOST_BYTES
merge_piece = merging.merge_piece
EXAMPLES = int(os.environ.get("FIRN_EXAMPLES", "0"))
PROPERTIES = {
    "flush_ms": 3_600_000,  # nothing is flushed that a test doesn't wait for
    "sst_size": "1KB",
    "block_size": "512B",
}

_LISTED = [b"a", b"ab", b"b", b"c\x00", b"c\x00\x00", b"\xff", b"d" * 40]
_KEYS = st.sampled_from(_LISTED)
_TYPES = {"d": "DECIMAL(38,3)", "u": "UUID"}
_OPS = st.tuples(st.sampled_from([PUT, PUT, DELETE, MERGE]), _KEYS, st.integers(-3, 99))
_LONG_TTLS = st.sampled_from([1e18, 1e15, 2.5e11, "80000000000h", "2000000d"])
_BESIDE = st.sampled_from(
    ["change", "compact", "writer", "load", "sweep", "sweep at once", "checkpoint", "crash"]
)
_BOUNDS = st.one_of(st.none(), st.binary(max_size=2), _KEYS)


def applied(state: State, op: Op) -> State:
    kind, key, n = op
    after = dict(state)
    if kind == DELETE:
        after.pop(key, None)
    else:
        after[key] = n + (after.get(key, 0) if kind == MERGE else 0)
    return after


def narrow(piece: Any, *more: Any, **options: Any) -> Any:
    """`merge_piece` of an Arrow whose batches have few bytes."""
    if large_pieces.weight(piece) > large_pieces.MOST_BYTES:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")
    return merge_piece(piece, *more, **options)


def typed(key: bytes) -> tuple[Decimal, str]:
    """A typed key in the place of one of bytes: of the first byte a number of either sign, of the others a UUID."""
    number = Decimal((key[0] if key else -1) - ord("c")) * 10**30
    words = b"".join((byte + 1).to_bytes(2, "big") for byte in key[1:9])
    return number, str(uuid.UUID(bytes=words.ljust(16, b"\0")))


_BYTES: dict[Any, bytes] = {typed(key): key for key in (*_LISTED, b"of the clone")}


class KeyedMachine(RuleBasedStateMachine):
    table: KeyedTable
    kv: KeyedWriter

    def __init__(self) -> None:
        super().__init__()
        self.durable: State = {}
        self.pending: list[list[Op]] = []
        self.kept: dict[str, State] = {}
        self.old: list[KeyedWriter] = []
        self.snapshots: list[tuple[Any, State]] = []

    @initialize(policy=st.sampled_from(["tiered", "leveled"]), small=st.booleans(), typed=st.booleans())
    def create(self, policy: str, small: bool, typed: bool) -> None:
        # Near the limits: all compactions are long, and hardly a piece fits into a batch.
        l0_steps.LONG_BYTES = 0 if small else LONG_BYTES
        large_pieces.MOST_BYTES = 300 if small else MOST_BYTES
        merging.merge_piece = narrow
        self.promised = True
        self.url = f"memory://model-{uuid.uuid4().hex}"
        self.db = firn.connect(self.url)
        properties = {**PROPERTIES, "compaction": policy}
        if small:
            properties["block_cache"] = 1  # nothing is read that isn't there any more
        self.typed = typed
        key = _TYPES if typed else None
        self.options: dict[str, Any] = {"key": key, "merge_operator": "add", "properties": properties}
        self.table = self.db.create_table("t", kind="keyed", **self.options)
        self.kv = self.opened()

    def opened(self) -> Any:
        return self.table.open(compaction=False)

    def key(self, key: bytes) -> Any:
        """A key as the table has it."""
        return typed(key) if self.typed else key

    def pairs(self, found: Any) -> list[tuple[bytes, int]]:
        """What a scan gives, with keys as the model has them."""
        return [(_BYTES[key] if self.typed else key, int(value)) for key, value in found]

    def shown(self, found: Any) -> State:
        return dict(self.pairs(found))

    @property
    def state(self) -> State:
        state = self.durable
        for ops in self.pending:
            for op in ops:
                state = applied(state, op)
        return state

    def _flushed(self) -> None:
        self.durable = self.state
        self.pending = []

    def teardown(self) -> None:
        l0_steps.LONG_BYTES, large_pieces.MOST_BYTES, merging.merge_piece = (
            LONG_BYTES,
            MOST_BYTES,
            merge_piece,
        )
        for writer in [*self.old, *([self.kv] if hasattr(self, "kv") else [])]:
            with suppress(FirnError):
                writer.close()

    # -- writing

    @rule(op=_OPS, durable=st.booleans())
    def change(self, op: Op, durable: bool) -> None:
        kind, key, n = op
        if kind == PUT:
            self.kv.put(self.key(key), b"%d" % n, durable=durable)
        elif kind == DELETE:
            self.kv.delete(self.key(key), durable=durable)
        else:
            self.kv.merge(self.key(key), b"%d" % n, durable=durable)
        self.pending.append([op])
        if durable:
            self._flushed()

    @rule(ops=st.lists(_OPS, min_size=1, max_size=6), durable=st.booleans())
    def change_at_once(self, ops: list[Op], durable: bool) -> None:
        batch = WriteBatch()
        for kind, key, n in ops:
            if kind == PUT:
                batch.put(self.key(key), b"%d" % n)
            elif kind == DELETE:
                batch.delete(self.key(key))
            else:
                batch.merge(self.key(key), b"%d" % n)
        self.kv.write(batch, durable=durable)
        self.pending.append(list(ops))
        if durable:
            self._flushed()

    @rule(op=_OPS, ttl=_LONG_TTLS, durable=st.booleans(), batch=st.booleans())
    def change_for_long(self, op: Op, ttl: Any, durable: bool, batch: bool) -> None:
        """Near the ends of time, and beyond: what is refused does nothing, and the writer goes on."""
        _, key, n = op
        try:
            if batch:
                self.kv.write({self.key(key): b"%d" % n}, ttl=ttl, durable=durable)
            else:
                self.kv.put(self.key(key), b"%d" % n, ttl=ttl, durable=durable)
        except InvalidInputError:
            return
        self.pending.append([(PUT, key, n)])
        if durable:
            self._flushed()

    @rule()
    def flush(self) -> None:
        self.kv.flush()
        self._flushed()

    # -- comings and goings

    @rule()
    def reopen(self) -> None:
        self.kv.close()
        self._flushed()
        self.snapshots = []  # they end with their writer
        self.kv = self.opened()

    @rule()
    def crash(self) -> None:
        """Another process takes over; the one before never closes, and knows nothing of it yet."""
        self.old.append(self.kv)
        self.kv = self.opened()
        seen = self.shown(self.kv.scan())
        states = [self.durable]
        for ops in self.pending:
            after = states[-1]
            for op in ops:
                after = applied(after, op)
            states.append(after)
        assert seen in states, f"{seen} is none of {states}"
        self.durable, self.pending, self.snapshots = seen, [], []

    @precondition(lambda self: self.old)
    @rule(op=_OPS)
    def a_zombie_writes(self, op: Op) -> None:
        zombie = self.old.pop()
        try:
            zombie.put(self.key(op[1]), b"%d" % op[2], durable=True)
        except FencedError:
            pass
        else:
            raise AssertionError("a writer that was fenced acknowledged a put")
        with suppress(FirnError):
            zombie.close()

    @rule()
    def drop_and_create_again(self) -> None:
        """The writers of the one before don't know yet, and flush once more; its clones go first."""
        for name in sorted(self.db.tables(), key=lambda name: name == "t"):
            self.db.drop_table(name)
        self.old.append(self.kv)
        generation = self.table.definition.generation
        self.table = self.db.create_table("t", kind="keyed", **self.options)
        assert self.table.definition.generation == generation + 1
        for writer in self.old:
            with pytest.raises(FencedError):
                writer.put(self.key(b"a"), b"9", durable=True)
                writer.poll()
        self.kv = self.opened()
        self.durable, self.pending, self.snapshots, self.kept = {}, [], [], {}

    # -- upkeep

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full)

    @rule(full=st.booleans(), late=st.booleans(), op=_OPS, beside=st.lists(_BESIDE, min_size=1, max_size=3))
    def a_slow_compaction(self, full: bool, late: bool, op: Op, beside: list[str]) -> None:
        """By another process, which reads, and commits only after others have done as they like."""
        done = {
            "change": lambda: self.change(op, True),
            "compact": lambda: self.compact(True),
            "writer": self.the_writers_own_compaction,
            "load": lambda: self.load([op[1]], 7),
            "sweep": lambda: self.sweep(False),
            "sweep at once": lambda: self.sweep(True),
            "checkpoint": lambda: self.checkpoint("one"),
            "crash": self.crash,
        }
        slow = Interrupted(lambda: [done[each]() for each in beside], late)
        # Who is fenced, or whose inputs were replaced and swept, has changed nothing.
        with suppress(FencedError, ObjectNotFoundError):
            firn.connect(self.url).table("t", kind="keyed").compact(full=full, runner=slow)

    @rule(full=st.booleans())
    def the_writer_compacts(self, full: bool) -> None:
        self.kv.compact(full=full)
        self._flushed()

    @rule(keys=st.lists(_KEYS, max_size=5), n=st.integers(0, 9))
    def load(self, keys: list[bytes], n: int) -> None:
        self.kv.flush()
        self._flushed()
        self.table.load(self._rows(keys, b"%d" % n))
        self.durable = {**self.durable, **dict.fromkeys(keys, n)}
        self.kv.poll()

    def _rows(self, keys: list[bytes], value: bytes) -> pa.Table:
        """Of typed keys with UUIDs in upper case, which are the same."""
        values = pa.array([value] * len(keys), pa.binary())
        if not self.typed:
            return pa.table({"key": pa.array(keys, pa.binary()), "value": values})
        numbers = pa.array([typed(key)[0] for key in keys], pa.decimal128(38, 0))
        ids = pa.array([typed(key)[1].upper() for key in keys], pa.string())
        return pa.table({"d": numbers, "u": ids, "value": values})

    @rule(now=st.booleans())
    def sweep(self, now: bool) -> None:
        # "0s" is one's word that no writer is stalled; fences are what stops those that are.
        now = now and not self.old
        self.promised = self.promised and not now
        self.table.sweep(older_than="0s" if now else None)

    @rule()
    def the_writers_own_compaction(self) -> None:
        """What its thread does when it is poked, where a writer has one."""
        self._own().work()
        self.kv.poll()

    def _own(self) -> Any:
        return getattr(self.kv, "sync", self.kv)._compaction

    @rule(name=st.sampled_from(["one", "two"]))
    def checkpoint(self, name: str) -> None:
        for each in self.table.checkpoints():
            if each.name == name:
                each.delete()
        self.table.checkpoint(name)
        self.kept[name] = self.shown(self.table.reader().scan())
        assert self.kept[name] == self.durable or self.pending

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def read_a_checkpoint(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kept)))
        assert self.shown(self.table.reader(at=name).scan()) == self.kept[name]

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def clone_a_checkpoint(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kept)))
        with self.table.clone(f"c{uuid.uuid4().hex}", at=name).open(compaction=False) as kv:
            assert self.shown(kv.scan()) == self.kept[name]
            kv.put(self.key(b"of the clone"), b"1")

    # -- reading

    @rule(key=_KEYS)
    def get(self, key: bytes) -> None:
        value = self.kv.get(self.key(key))
        assert (None if value is None else int(value)) == self.state.get(key)

    @rule(keys=st.lists(_KEYS, max_size=5))
    def multi_get(self, keys: list[bytes]) -> None:
        found = self.kv.multi_get(list(map(self.key, keys)))
        assert [None if value is None else int(value) for value in found] == [
            self.state.get(key) for key in keys
        ]

    @rule(start=_BOUNDS, end=_BOUNDS, reverse=st.booleans())
    def scan(self, start: bytes | None, end: bytes | None, reverse: bool) -> None:
        expected = [
            (key, n)
            for key, n in sorted(self.state.items(), reverse=reverse)
            if (start is None or key >= start) and (end is None or key < end)
        ]
        bounds = [None if bound is None else self.key(bound) for bound in (start, end)]
        found = self.kv.scan(*bounds, reverse=reverse)
        assert self.pairs(found) == expected
        rows = [tuple(row.values()) for row in found.to_arrow().to_pylist()]
        assert self.pairs([(row[:2], row[2]) for row in rows] if self.typed else rows) == expected

    @rule(prefix=st.sampled_from([b"a", b"c\x00", b"\xff", b"d"]), reverse=st.booleans())
    def scan_prefix(self, prefix: bytes, reverse: bool) -> None:
        if self.typed:
            prefix = prefix[:1]  # which is the first column
        found = self.kv.scan_prefix(typed(prefix)[0] if self.typed else prefix, reverse=reverse)
        assert self.pairs(found) == [
            pair for pair in sorted(self.state.items(), reverse=reverse) if pair[0].startswith(prefix)
        ]

    @rule()
    def take_a_snapshot(self) -> None:
        self.snapshots = [*self.snapshots[-1:], (self.kv.snapshot(), self.state)]
        self.promised = self.promised or len(self.snapshots) == 1

    @precondition(lambda self: self.snapshots)
    @rule(key=_KEYS)
    def read_a_snapshot(self, key: bytes) -> None:
        snapshot, state = self.snapshots[0]
        try:
            value = snapshot.get(self.key(key))
            found = self.shown(snapshot.scan())
        except SnapshotTooOldError:
            assert not self.promised, "a sweep with default ages took what a snapshot reads"
            self.snapshots = []  # a sweep took what it read
            return
        assert (None if value is None else int(value)) == state.get(key)
        assert found == state

    @rule()
    def a_snapshot_outlives_a_compaction_and_a_sweep(self) -> None:
        if not self.table.view().manifest.ssts:
            self.kv.put(self.key(b"a"), b"1")
            self.kv.compact()
        self.kv.put(self.key(b"a"), b"2")
        self.durable, self.pending = {**self.state, b"a": 2}, []
        snapshot, state = self.kv.snapshot(), self.state
        self.kv.compact(full=True)
        self._flushed()
        self.table.sweep()
        assert self.shown(snapshot.scan()) == state

    @rule()
    def the_durable_state(self) -> None:
        """What a crash couldn't undo: a writer's durable reads and any reader see the same."""
        seen = self.shown(self.table.reader(follow=None).scan())
        states = [self.durable]
        for ops in self.pending:
            after = states[-1]
            for op in ops:
                after = applied(after, op)
            states.append(after)
        assert seen in states
        for key in (b"a", b"b"):
            value = self.kv.get(self.key(key), durable=True)
            assert (None if value is None else int(value)) in [state.get(key) for state in states]

    @invariant()
    def the_writer_sees_all_of_it(self) -> None:
        if hasattr(self, "kv"):
            assert self.shown(self.kv.scan()) == self.state


class AsyncKeyedMachine(KeyedMachine):
    """The same through asyncio."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = Loop()

    def opened(self) -> Any:
        return Twins(self.loop).open(self.table, compaction=False)

    def teardown(self) -> None:
        super().teardown()
        self.loop.stop()


def _settings(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=40,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


TestKeyedTable = KeyedMachine.TestCase
TestKeyedTable.settings = _settings(12)
TestAsyncKeyedTable = AsyncKeyedMachine.TestCase
TestAsyncKeyedTable.settings = _settings(4)


@pytest.mark.long
class TestKeyedTableAtLength(KeyedMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = _settings(60)


@pytest.mark.long
class TestAsyncKeyedTableAtLength(AsyncKeyedMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = _settings(20)
