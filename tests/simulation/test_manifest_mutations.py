"""A check that can't fail is no check: with any one rule left out, simulations fail, and without that they pass."""

from __future__ import annotations

import pytest

from simulation import manifest_mutations as without
from simulation.manifest_world import MANIFEST_SHAPES, build
from simulation.noticed import must_be_noticed

CASES = [
    (without.open_without_a_fence, "rivals", 1),
    (without.take_data_for_a_fence, "rivals", 4),
    (without.claim_with_an_old_start, "rivals", 0),
    (without.believe_any_claim, "zombies", 0),
    (without.put_over_whatever_is_there, "rivals", 1),
    (without.believe_refusals_and_silence, "zombies", 0),
    (without.acknowledge_above_a_gap, "rivals", 1),
    (without.never_look_at_the_pointer, "zombies", 2),
    (without.never_restart_a_read, "collectors", 0),
    (without.share_the_epoch, "collectors", 1),
    (without.commit_before_the_manifest_is_up, "snapshots", 0),
    (without.forget_what_is_in_flight, "calm", 4),
    (without.publish_after_another_compactor, "compactors", 1),
    (without.forget_new_writers, "mixed", 0),
    (without.keep_the_last_info_only, "rivals", 0),
    (without.keep_no_info, "mixed", 0),
    (without.apply_the_newest_changes_only, "calm", 6),
    (without.chain_for_ever, "mixed", 2),
    (without.put_snapshots_alive, "late", 15),
    (without.forget_l0_of_snapshots, "snapshots", 0),
    (without.forget_chains, "collectors", 0),
    (without.collect_what_is_in_flight, "snapshots", 0),
    (without.collect_the_new_epochs, "compactors", 0),
    (without.collect_fences_at_once, "collectors", 3),
    (without.collect_what_is_not_walked, "collectors", 0),
    (without.forget_snapshots, "snapshots", 0),
    (without.forget_what_was_replaced, "collectors", 0),
    (without.tell_nothing_of_earlier_chains, "collectors", 0),
    (without.believe_a_short_list, "terse", 0),
]


@pytest.mark.parametrize(
    ("mutation", "shape", "hint"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_dropped_rule_is_noticed(
    mutation: without.Mutation, shape: str, hint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = MANIFEST_SHAPES[shape]
    must_be_noticed(mutation, lambda seed: build(seed, chosen), hint, monkeypatch)
