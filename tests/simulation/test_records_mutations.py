"""A check that can't fail is no check: with any one rule of record tables left out, simulations or scenarios fail,
and without that they pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation import records_log_mutations as log_without
from simulation import records_mutations as without
from simulation import records_scenarios as scenarios
from simulation import records_untracked as untracked
from simulation.noticed import a_scenario_must_notice, must_be_noticed
from simulation.records_world import RECORDS_SHAPES, build

pytestmark = pytest.mark.long

BY_SEED = [
    (log_without.say_that_all_is_applied, "calm", 0),
    (log_without.stage_after_the_commit, "lists", 3),
    (log_without.set_the_horizon, "truncated", 1),
    (log_without.put_packs_over_one_another, "impatient", 98),
    (log_without.use_entries_again, "calm", 0),
    (log_without.take_what_is_applied_for_the_end, "calm", 0),
    (log_without.refer_to_a_catalog_that_has_changed, "users", 0),
    (log_without.truncate_a_catalog_that_is_needed, "truncated", 0),
    (without.forget_the_overlay, "calm", 0),
    (without.forget_the_overlay_of_indices, "calm", 0),
    (without.read_the_newest_version, "sleepers", 4),
    (without.take_cut_versions_for_none, "impatient", 11),
    (without.believe_entries, "calm", 0),
    (without.move_without_looking_back, "movers", 0),
    (without.move_for_commits_only, "movers", 1),
    (log_without.forget_own_commits, "mixed", 0),
    (log_without.overwrite_others, "calm", 0),
    (log_without.ignore_claims, "users", 0),
    (log_without.forget_reads, "serializable", 0),
    (log_without.forget_predicates, "serializable", 2),
    (log_without.forget_misses, "serializable", 5),
    (log_without.use_the_indices_of_the_snapshot, "users", 21),
    (log_without.check_at_the_first_attempt_only, "calm", 0),
    (log_without.go_on_at_the_next_number, "mixed", 0),
    (log_without.give_up_without_an_answer, "mixed", 0),
    (without.rows_before_entries, "mixed", 2),
    (without.rows_without_a_condition, "appliers", 0),
    (without.apply_one_version_only, "calm", 0),
    (without.done_before_it_is, "calm", 0),
    (without.drop_what_is_still_seen, "hot", 0),
    (without.own_commits_stand_for_others, "owners", 0),
    (without.truncate_beyond_what_is_applied, "truncated", 0),
    (without.truncate_beyond_the_horizon, "calm", 1),
    (without.truncate_the_last_record, "calm", 1),
    (without.truncate_without_packs, "calm", 0),
    (without.delete_before_the_boundary, "truncated", 3),
    (without.delete_entries_before_the_horizon, "bank", 7),
    (without.collect_at_once, "appliers", 46),
    (without.prune_what_is_still_seen, "bank", 5),
    (without.prune_without_a_mark, "bank", 31),
    (without.sweep_nothing, "users", 0),
    (without.look_for_no_holder, "users", 0),
    (without.claim_nothing, "users", 0),
    (without.claim_first_elements_only, "elements", 0),
    (without.enter_first_elements_only, "elements", 1),
    (without.build_without_waiting, "users", 0),
    (without.build_without_filling, "users", 0),
    (without.fill_the_newest_versions_only, "users", 31),
    (without.commit_to_tables_that_are_gone, "altered", 4),
    (without.commit_what_the_old_schema_allowed, "altered", 0),
    (without.take_dropped_rows_for_lost, "altered", 2),
    (untracked.forget_gets, "verbs", 52),
    (untracked.forget_gets_of_many, "verbs", 23),
    (untracked.forget_finds, "verbs", 0),
    (untracked.forget_scans, "verbs", 2),
    (untracked.forget_streams, "verbs", 0),
    (untracked.forget_pages, "verbs", 2),
    (untracked.forget_ordered_reads, "verbs", 21),
    (untracked.forget_counts, "verbs", 9),
    (untracked.forget_what_was_counted, "verbs", 9),
    (untracked.forget_refused_inserts, "verbs", 16),
    (untracked.forget_what_comes_after_the_snapshot, "verbs", 3),
    (untracked.forget_missed_updates, "verbs", 58),
    (untracked.forget_missed_deletes, "verbs", 0),
]

STEP_BY_STEP = [
    (log_without.forget_what_is_done_above, scenarios.a_hole_in_what_is_done),
    (log_without.delete_rows, scenarios.a_stalled_applier),
    (log_without.never_ask_for_the_horizon, scenarios.a_ghost_that_was_found),
    (log_without.ask_for_the_horizon_first, scenarios.a_ghost_after_the_horizon),
    (log_without.use_what_was_probed_at_once, scenarios.a_ghost_that_another_thread_sees),
    (log_without.judge_a_snapshot_by_the_newest_head, scenarios.an_old_snapshot_in_a_process_that_knows_more),
    (log_without.validate_by_the_time_of_the_answer, scenarios.a_slow_answer),
    (log_without.open_without_the_horizon, scenarios.a_log_that_is_truncated_while_it_is_opened),
    (log_without.open_with_an_old_horizon, scenarios.a_log_that_is_truncated_while_it_is_opened),
    (log_without.take_any_catalog_of_the_horizon, scenarios.a_record_that_is_truncated_while_it_is_read),
    (without.look_at_the_overlay_after_the_row, scenarios.a_row_that_is_brought_up_to_date_while_it_is_read),
    (without.believe_old_indices, scenarios.an_old_snapshot_in_a_process_that_knows_more),
    (without.ask_before_the_list, scenarios.a_list_that_takes_long),
    (log_without.admit_all_into_a_group, scenarios.a_group_that_overlaps),
    (log_without.acknowledge_ghosts, scenarios.a_commit_into_the_past),
    (log_without.report_failures_at_once, scenarios.a_store_that_fails_after_the_commit),
    (without.never_apply, scenarios.nobody_applies),
    (without.leave_others_alone, scenarios.a_process_that_crashed),
    (without.collect_what_is_not_applied, scenarios.a_collection_that_is_ahead_of_appliers),
    (without.sweep_above_the_horizon, scenarios.a_sweep_between_entries_and_row),
    (without.end_locks_by_the_own_clock, scenarios.locks_and_clocks),
    (without.trust_locks, scenarios.a_writer_that_asks_for_no_lock),
    (without.lock_without_a_probe, scenarios.a_lock_on_what_has_moved),
    (without.enter_ready_indices_only, scenarios.a_writer_that_overtakes_a_build),
    (without.use_an_index_while_it_is_built, scenarios.a_find_during_a_build),
    (without.end_a_build_without_a_look_back, scenarios.a_claim_beside_a_row_that_keeps_its_value),
    (without.believe_that_all_was_claimed, scenarios.a_writer_that_is_older_than_a_unique_index),
    (without.end_any_build, scenarios.a_builder_that_slept),
]


@pytest.mark.parametrize(
    ("mutation", "shape", "hint"), BY_SEED, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_dropped_rule_is_noticed(
    mutation: log_without.Mutation, shape: str, hint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = RECORDS_SHAPES[shape]
    must_be_noticed(mutation, lambda seed: build(seed, chosen), hint, monkeypatch)


@pytest.mark.parametrize(
    ("mutation", "scenario"), STEP_BY_STEP, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_dropped_rule_is_noticed_step_by_step(
    mutation: log_without.Mutation, scenario: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_scenario_must_notice(mutation, scenario, monkeypatch)


def test_all_mutations_are_tried() -> None:
    tried = {mutation for mutation, *_ in (*BY_SEED, *STEP_BY_STEP)}
    there = {
        found
        for module in (without, log_without, untracked)
        for name, found in vars(module).items()
        if getattr(found, "__module__", "") == module.__name__
        and callable(found)
        and not isinstance(found, type)
        and not name.startswith("_")
    }
    assert there == tried
