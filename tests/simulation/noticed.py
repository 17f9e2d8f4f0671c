"""That a simulation or a scenario notices a rule that is left out: it fails without the rule, and passes with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.errors import FirnError
from firn.testing import Seed, SimulationFailure, World, simulate

Mutation = Callable[[pytest.MonkeyPatch], None]

FURTHER_SEEDS = 400
"""Looked through from the hint on, as any change of the program shuffles what seeds mean."""


def must_be_noticed(
    mutation: Mutation, build: Callable[[Seed], World], hint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hint` is a seed that is known to notice it; others are looked through for when the code has changed since."""
    with monkeypatch.context() as patched, pytest.raises(SimulationFailure) as failure:
        mutation(patched)
        simulate(build, range(hint, hint + FURTHER_SEEDS))
    cause = failure.value.__cause__
    assert not isinstance(cause, TypeError | AttributeError | NameError), (
        f"it doesn't fit the program: {cause!r}"
    )
    seed = failure.value.seed
    assert isinstance(seed, int)
    simulate(build, [seed])


def a_scenario_must_notice(
    mutation: Mutation, scenario: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario()
    with (
        monkeypatch.context() as patched,
        pytest.raises((AssertionError, LookupError, FirnError, pytest.fail.Exception)),
    ):
        mutation(patched)
        scenario()
