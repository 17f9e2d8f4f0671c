"""The choice of the client that goes on next: drawn from a seed, or replayed from a list of choices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol


class Choice(NamedTuple):
    """The option that was chosen, and how many there were."""

    chosen: int
    options: int


class Replay:
    """A schedule as a list of choices; after its end, the client that runs goes on running.

    Choice 0 is always "the same client goes on", if it can; the others follow in a fixed order. Only
    moments with more than one option count. `explore` makes these, and failures print them, so that
    `World(Replay([0, 1, 1]))` fails again. `taken` is what was chosen in the run; `diverged` tells that some
    choice wasn't there, so that the program did something else than when the choices were made.
    """

    def __init__(self, choices: Sequence[int] = (), *, preemptions: int | None = None) -> None:
        self.choices = tuple(choices)
        self.preemptions = preemptions
        self.taken: list[Choice] = []
        self.diverged = False

    def __repr__(self) -> str:
        choices = [taken.chosen for taken in self.taken] if self.taken else list(self.choices)
        while choices and choices[-1] == 0:
            choices.pop()
        bound = "" if self.preemptions is None else f", preemptions={self.preemptions}"
        return f"Replay({choices}{bound})"


Seed = int | Replay
"""The source of a world's schedule: `simulate` gives ints, `explore` gives replays."""


def stream(seed: Seed, purpose: str) -> Random:
    """Random numbers of their own for each purpose, so that one's use doesn't shift the others'."""
    return Random(f"{seed if isinstance(seed, int) else 0}/{purpose}")


class Schedule(Protocol):
    """Picks among `options` clients; `current` is the one that runs, or -1 if it can't go on."""

    def pick(self, options: int, current: int) -> int: ...

    def jumps(self) -> bool:
        """Whether to let a sleeper wake although others could go on."""
        ...

    def latency_ms(self) -> int: ...


class RandomSchedule:
    """Any client next, at random; now and then one runs alone for a long burst, as real ones do."""

    def __init__(self, seed: int, latency_ms: int) -> None:
        self._random = stream(seed, "schedule").random
        self._latency_ms = latency_ms
        self._burst = 0

    def pick(self, options: int, current: int) -> int:
        if self._burst > 0 and current >= 0:
            self._burst -= 1
            return current
        if self._random() < 0.02:
            self._burst = int(self._random() * 100)
        return int(self._random() * options)

    def jumps(self) -> bool:
        return self._random() < 0.05

    def latency_ms(self) -> int:
        # 0 is among them: two clients may well act in one millisecond.
        return int(self._random() * self._latency_ms)


class ReplaySchedule:
    """Follows a `Replay` and writes down the options it met."""

    def __init__(self, replay: Replay) -> None:
        replay.taken.clear()
        replay.diverged = False
        self._replay = replay
        self._preempted = 0

    def pick(self, options: int, current: int) -> int:
        replay = self._replay
        bound = replay.preemptions
        if options == 1 or (current >= 0 and bound is not None and self._preempted >= bound):
            return max(current, 0)
        chosen = self._choose(options)
        if current < 0:
            return chosen
        if chosen == 0:
            return current
        self._preempted += 1
        return chosen - 1 if chosen <= current else chosen

    def jumps(self) -> bool:
        # Only the switch to whoever wakes is a preemption; without one left, waking anybody is idle.
        bound = self._replay.preemptions
        if bound is not None and self._preempted >= bound:
            return False
        return self._choose(2) == 1

    def latency_ms(self) -> int:
        return 1

    def _choose(self, options: int) -> int:
        replay = self._replay
        step = len(replay.taken)
        chosen = replay.choices[step] if step < len(replay.choices) else 0
        if chosen >= options:
            # Raised here, the program under test might catch it.
            replay.diverged = True
            chosen = 0
        replay.taken.append(Choice(chosen, options))
        return chosen
