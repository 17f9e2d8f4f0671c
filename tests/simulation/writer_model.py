"""What the processes of a writer were promised, and whether it was kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.state import CatalogHead
from firn.journal.writer.history.forks import Fork
from firn.journal.writer.history.history import CatalogVersion
from firn.testing.client import Client
from simulation.writer_catalog import numbers


class Model:
    """Commits by number: acknowledged at a head, known not to have happened, or open."""

    def __init__(self) -> None:
        self.issued = 0
        self.acknowledged: dict[int, CatalogHead] = {}
        self.nothing: set[int] = set()
        self.decided: dict[int, int] = {}
        """Revision → commit, for every revision that somebody saw something above."""
        self.happened: Counter[str] = Counter()
        self.removed: set[str] = set()
        """Files that were removed for sure."""
        self.stops = 0
        """How often somebody has stopped every process of the writer."""
        self.stopped = False
        self._working: set[Client] = set()

    @contextmanager
    def at_work(self, client: Client) -> Iterator[None]:
        """While nobody has stopped the writer's processes."""
        while self.stopped:
            client.clock.sleep(1)
        self._working.add(client)
        try:
            yield
        finally:
            self._working.discard(client)

    @contextmanager
    def all_stopped(self, client: Client, lands_s: float) -> Iterator[None]:
        """Nobody works, and whatever was sent has landed."""
        self.stopped = True
        self.stops += 1
        try:
            while self._working:
                client.clock.sleep(1)
            client.clock.sleep(lands_s)
            yield
        finally:
            self.stopped = False

    def next(self) -> int:
        self.issued += 1
        return self.issued

    def acknowledge(self, number: int, head: CatalogHead) -> None:
        others = [n for n, h in self.acknowledged.items() if h.revision == head.revision and n != number]
        assert not others, f"commits {number} and {others[0]} were both acknowledged at {head.revision}"
        self.acknowledged[number] = head
        self.happened["acknowledged"] += 1
        self._agree(head.revision, number, sure=False)

    def failed(self, number: int) -> None:
        self.nothing.add(number)

    def saw(self, version: CatalogVersion, *, before: frozenset[int] = frozenset()) -> None:
        """A reader's view: all below its head is decided for ever. `before`: what was decided when it began."""
        shown = numbers(version.state)
        for revision, number in shown.items():
            assert number not in self.nothing, f"commit {number} was said not to have happened"
            self._agree(revision, number, sure=revision < version.head.revision)
        if version.fork is not None:
            assert not version.fork.hard, f"{version.fork}"
            assert version.fork.revision not in before, f"{version.fork} was decided"

    def _agree(self, revision: int, number: int, *, sure: bool) -> None:
        known = self.decided.get(revision, number)
        assert known == number, f"revision {revision} was commit {known}, and now it is {number}"
        if sure:
            self.decided[revision] = number
            for other, head in self.acknowledged.items():
                assert head.revision != revision or other == number, (
                    f"commit {other} was acknowledged at {revision}, and {number} stands there"
                )

    def side(self, fork: Fork) -> str:
        """Which one a person keeps: what was acknowledged, if anybody knows."""
        known = [h.uuid or "" for h in self.acknowledged.values() if h.revision == fork.revision]
        return known[0] if known else fork.prefixes[0]

    def final(self, version: CatalogVersion) -> None:
        """Every acknowledged commit is on the surviving branch, or in an open fork that everybody sees."""
        self.saw(version, before=frozenset(self.decided))
        shown = numbers(version.state)
        for number, head in self.acknowledged.items():
            if version.fork is not None and head.revision == version.fork.revision:
                assert prefix_of(head.uuid or "") in version.fork.prefixes
            else:
                assert shown.get(head.revision) == number, f"commit {number} of {head.revision} is lost"
