"""What the processes of a keyed table were promised, and whether it was kept.

A flush is one body that nobody else writes. The table at a moment is the bodies of its numbers, from 0 on without a
gap: compactions move them into SSTs and change none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

Contents = tuple[bytes, ...]


@dataclass(frozen=True)
class Flush:
    """Which writer sent a body, and as which number."""

    epoch: int
    number: int


@dataclass
class Kept:
    """A snapshot, promised to stay until it expires (None: until it is deleted), and what it read at first."""

    expires_ms: int | None
    contents: Contents | None = None


class Model:
    """Flushes that were sent and acknowledged, where writers began, what snapshots hold, what anybody saw."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Flush] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.decided: Contents = ()
        """What somebody saw as the table; it can only grow."""
        self.starts: dict[int, int] = {}
        """First number of each writer that was let in."""
        self.kept: dict[str, Kept] = {}
        self.happened: Counter[str] = Counter()

    def send(self, epoch: int, number: int) -> bytes:
        body = b"flush %d: number %d of writer %d" % (len(self.sent), number, epoch)
        self.sent[body] = Flush(epoch, number)
        return body

    def adopt(self, number: int, body: bytes) -> None:
        """What was there before the model."""
        self.sent[body] = Flush(0, number)
        self.decided = (*self.decided, body)

    def opened(self, epoch: int, start: int, floor: int) -> None:
        """A writer was let in, and may have learned so late. `floor` is as it was when it began to open."""
        assert epoch not in self.starts, f"two writers were let in as {epoch}"
        assert start >= floor, f"writer {epoch} begins at {start}, and {floor} flushes were there before"
        self.starts[epoch] = start
        for number, body in enumerate(self.decided):
            self._check(number, body)
        self.happened["opened"] += 1

    def acknowledge(self, number: int, body: bytes) -> None:
        known = self.acknowledged.setdefault(number, body)
        assert known == body, f"{known!r} and {body!r} were both acknowledged"
        assert len(self.decided) <= number or self.decided[number] == body, (
            f"{body!r} was acknowledged, and {self.decided[number]!r} stands there"
        )
        self.happened["acknowledged"] += 1

    def floor(self) -> int:
        """How many flushes a reader who begins now must see."""
        return max(len(self.decided), 1 + max(self.acknowledged, default=-1))

    def saw(self, contents: Contents, floor: int) -> None:
        """A reader's view; `floor` is as it was when it began."""
        for number, (seen, known) in enumerate(zip(contents, self.decided, strict=False)):
            assert seen == known, f"number {number} was {known!r}, and now it is {seen!r}"
        assert len(contents) >= floor, f"{len(contents)} flushes are seen, and {floor} were there before"
        if len(contents) <= len(self.decided):
            return
        for number, body in enumerate(contents):
            self._check(number, body)
        self.decided = contents

    def _check(self, number: int, body: bytes) -> None:
        flush = self.sent.get(body)
        assert flush is not None, f"number {number} is {body!r}, which nobody has sent"
        assert flush.number == number, f"number {number} is {body!r}"
        for epoch, start in self.starts.items():
            assert flush.epoch >= epoch or number < start, (
                f"{body!r} is seen, and writer {epoch} was let in at {start}"
            )
        known = self.acknowledged.get(number, body)
        assert known == body, f"{known!r} was acknowledged, and {body!r} stands there"

    def read_again(self, snapshot: str, contents: Contents, floor: int) -> None:
        """What a snapshot shows; at its first reading it has all that was there when it was made."""
        kept = self.kept[snapshot]
        if kept.contents is None:
            self.saw(contents, floor)
            kept.contents = contents
            self.happened["snapshot"] += 1
        assert contents == kept.contents, (
            f"snapshot {snapshot} had {len(kept.contents)} flushes, not {len(contents)}"
        )
        self.happened["snapshot read"] += 1
