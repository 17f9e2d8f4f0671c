"""That a simulation notices a rule that is left out: some seed fails without it, and passes with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.testing import Seed, SimulationFailure, World, simulate

Mutation = Callable[[pytest.MonkeyPatch], None]


def must_be_noticed(
    mutation: Mutation, build: Callable[[Seed], World], seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`seeds` begin with one that is known to notice it; the others are for when the code has changed since."""
    with monkeypatch.context() as patched, pytest.raises(SimulationFailure) as failure:
        mutation(patched)
        simulate(build, seeds)
    cause = failure.value.__cause__
    assert not isinstance(cause, TypeError | AttributeError | NameError), (
        f"it doesn't fit the program: {cause!r}"
    )
    seed = failure.value.seed
    assert isinstance(seed, int)
    simulate(build, [seed])
