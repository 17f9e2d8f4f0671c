"""Appenders of a simulated table: they gather rows into batches, and try for ever where the store fails.

Their rows stand in logs. A batch without an id has one process, and is in doubt once that has died; batches of a
source have ids, and its next process appends them again. Whether an appender is right is in the model: each batch is
an operation, and none may be committed twice, or be acknowledged and lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from firn.errors import InvalidInputError
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.append import OpenAppend
from firn.journal.model import Commit, Namer
from firn.lake.appender import batch_writer
from firn.lake.appender.batch_writer import BatchWriter
from firn.lake.appender.batches import Batch
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import FAILED, LOST, LOST_ACK, Call, Fault, FaultPlan, SimClient, delayed
from firn.testing.schedule import Seed, stream
from simulation.leaderless_clients import Clients
from simulation.leaderless_model import Operation
from simulation.leaderless_table import PREFIX

NAME = "gather"
DEFINITION = LakeDefinition("t", properties={"inline": "64KB"})


class Numbered(OpenAppend):
    """An append of a batch, with the operation's number in its log."""

    def __init__(self, table: LeaderlessJournal, number: int, sends: Callable[[], None]) -> None:
        super().__init__(table)
        self.number, self.sends = number, sends

    def commit(self, commit: Commit) -> str:
        self.sends()
        return super().commit(replace(commit, summary={"n": self.number}))


class NumberingJournal(LeaderlessJournal):
    number = -1

    @staticmethod
    def sends() -> None: ...

    def begin_append(self, namer: Namer | None = None) -> OpenAppend:
        return Numbered(self, self.number, self.sends)


class Gatherers:
    """The appenders of one world, and the sources whose batches have ids."""

    def __init__(self, clients: Clients, settings: LeaderlessSettings) -> None:
        self.clients, self.model, self.settings = clients, clients.model, settings
        self.sources: dict[str, list[tuple[str, Operation]]] = {}

    def run(self, client: SimClient) -> None:
        clients, rng = self.clients, client.random
        journal = NumberingJournal(
            client.bucket,
            PREFIX,
            settings=self.settings,
            clock=client.clock,
            renew_in_background=False,
            windowed=clients.windowed,
        )
        table = LakeTable(client.bucket, PREFIX, DEFINITION, journal, InProcess(LocalRunner(threads=1)))
        writer = BatchWriter(table.context, wait=client.clock.sleep, on_retry=lambda error: None)
        source = self.sources.setdefault(client.name.partition("~")[0], [])
        for id, op in list(source):  # of a process before
            self._write(client, journal, writer, op, id)
        for _ in range(clients.rounds):
            clients.rest(client, 600)
            op = self.model.operation("append")
            self.model.new_rows(op, rng.randint(1, 3))
            if rng.random() < 0.3:
                source.append((f"{client.name}/{op.number}", op))
                self._write(client, journal, writer, *reversed(source[-1]))
            else:
                self._write(client, journal, writer, op)

    def _write(
        self,
        client: SimClient,
        journal: NumberingJournal,
        writer: BatchWriter,
        op: Operation,
        id: str | None = None,
    ) -> None:
        def sends() -> None:
            self.model.begin(op, client.time.now_ms)
            self.model.happened["sent under another name"] += bool(tries)
            tries.append(client.time.now_ms)

        tries: list[int] = []
        journal.number, journal.sends = op.number, sends  # type: ignore[method-assign]
        try:
            version = writer.write(Batch([{"id": i} for i in sorted(op.coming)], id=id))
        except InvalidInputError:  # for its clock
            if not (abs(client.clock.skew_ms) > self.settings.max_skew_ms - 5000):
                raise
            return
        assert version is not None
        self.model.done(op, client.time.now_ms)
        self.model.happened["gathered"] += 1


class Outages:
    """To an appender the store is gone for a while, now and then: no request is answered, and the logs that it sends
    get lost, or some of them land, or land late. Else as `others` have it."""

    def __init__(self, seed: Seed, others: FaultPlan | None, *, longest_s: float, part: float = 0.02) -> None:
        self.others, self.longest_s, self.part = others, longest_s, part
        self._random = stream(seed, "outages")
        self._gone: dict[str, tuple[int, Sequence[Fault]]] = {}
        """Until when to a client, and how its logs end."""

    def decide(self, call: Call) -> Fault | None:
        fault = None if self.others is None else self.others.decide(call)
        if not call.client.startswith(NAME):
            return fault
        rng = self._random
        is_log = "/_log/" in call.key and call.verb in ("put", "put_if_absent")
        until, ways = self._gone.get(call.client, (0, ()))
        if call.time_ms >= until:
            if rng.random() >= (10 * self.part if is_log else self.part):
                return fault
            late = delayed(rng.random() * self.longest_s)
            ways = rng.choice(
                [[LOST], [FAILED, LOST], [FAILED, LOST_ACK], [late, FAILED], [LOST, LOST_ACK, late]]
            )
            self._gone[call.client] = call.time_ms + rng.randint(1, 900_000), ways
        return rng.choice(ways) if is_log else FAILED


# -- what leaves out a rule of docs/design/0019-appenders.md


def _settling(patch: pytest.MonkeyPatch, settle: Callable[[OpenAppend], str | None]) -> None:
    patch.setattr(OpenAppend, "settle", lambda self, wait: settle(self))


def name_anew_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rules 5 and 6: what isn't answered is sent again under another name."""
    _settling(patch, lambda append: None)


def name_anew_if_it_isnt_there(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: one look, without waiting until the log can't land any more."""

    def settle(append: OpenAppend) -> str | None:
        sent = append._sent
        if sent is None:
            return None
        there = append.table.layout.log_key(sent.log.name)
        keys = {info.key for info in append.table.log_bucket.list(append.table.layout.log_prefix).objects}
        return sent.log.name.removesuffix(".jsonl") if there in keys else None

    _settling(patch, settle)


def not_among_tombstones(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: a log that isn't there never was."""
    patch.setattr("firn.journal.leaderless.append._is_replaced", lambda table, name: False)


def send_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: the same name is sent until it is answered, beyond R."""
    settle = OpenAppend.settle

    def send(self: OpenAppend, wait: Callable[[float], object]) -> str | None:
        if self._sent is not None:
            self._sent = replace(self._sent, until=math.inf, landed=math.inf)
        return settle(self, wait)

    patch.setattr(OpenAppend, "settle", send)


def forget_ids(patch: pytest.MonkeyPatch) -> None:
    """Batches of a source: their ids aren't claimed."""
    commit_of = batch_writer.commit_of
    patch.setattr(batch_writer, "commit_of", lambda *given, batch_id=None, **more: commit_of(*given, **more))
    patch.setattr(LeaderlessJournal, "seen_batch", lambda self, id: None)
