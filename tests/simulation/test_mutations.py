"""A check that can't fail is no check: with any one rule left out, simulations fail, and without that they pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from simulation import appender_clients as gatherers
from simulation import mutations as without
from simulation import scenarios
from simulation import window_mutations as windows
from simulation.leaderless_world import build
from simulation.mutations import Mutation
from simulation.noticed import a_scenario_must_notice, must_be_noticed
from simulation.shapes import SHAPES

pytestmark = pytest.mark.long


class Case(NamedTuple):
    """A rule, what leaves it out, in which shape that shows, and a seed that is known to show it."""

    rule: str
    mutation: Mutation
    shape: str
    hint: int = 0


CASES = [
    Case("2 stamp above all", without.stamp_by_own_clock, "mixed", 10),
    Case("3 age of an append", without.append_without_age, "orphans", 2),
    Case("4 retry window", without.retry_the_log_for_ever, "streams", 53),
    Case("4 stamp just before", without.stamp_long_before_the_log, "streams", 1),
    Case("6 settle the intent", without.no_settling, "upkeep", 35),
    Case("6 list after acquiring", without.list_before_acquiring, "upkeep", 1),
    Case("7 compare nonces", without.believe_refusals, "upkeep", 4),
    Case("5 a refused renewal ends it", without.wake_up_fenced, "upkeep", 1),
    Case("8 reserve", without.check_the_lease_then_put, "upkeep", 2),
    Case("8 put-if-match", without.publish_without_reservation, "upkeep", 4),
    Case("8 announce first", without.announce_after_publishing, "upkeep"),
    Case("11 folded state", without.carry_own_words, "upkeep"),
    Case("11 every path", without.carry_touched_paths, "upkeep"),
    Case("11 tombstones", without.tombstone_nothing, "upkeep"),
    Case("12 age from appearance", without.age_from_the_stamp, "upkeep", 54),
    Case("13 margin for skew", without.no_margin_for_skew, "cleaners", 29),
    Case("14 delete first", without.replace_before_deleting, "upkeep"),
    Case("14 own name", without.replace_under_a_new_name, "upkeep"),
    Case("16 lock", without.sweep_without_lock, "sweepers"),
    Case("16 orphan age", without.sweep_young_orphans, "orphans", 2),
    Case("17 missing logs", without.pass_over_missing_logs, "caches", 113),
    Case("18 listed only", without.checkpoint_beyond_the_list, "caches"),
    Case("19 list again", without.no_second_list, "caches", 22),
    Case("20 appends only", without.stream_maintenance, "streams"),
    Case("20 watermark", without.watermark_at_the_clock, "streams", 6),
    Case("20 age of a poll", without.stream_at_any_age, "streams", 6),
    Case("batches: void first", without.take_batches_over_unvoided, "twins", 5),
    Case("batches: carried", without.forget_batches_when_merging, "twins", 27),
    Case("readers: late appends", without.skip_logs_that_are_not_carried, "mixed", 1),
    Case("27 names", without.name_unlocked_parts_as_maintenance, "slow-unlocked", 8),
    Case("27 age", without.merge_without_age, "slow-unlocked", 182),
    Case("28 live files", without.replace_what_is_gone, "unlocked", 4),
    Case("rows in logs: end with the log", without.rows_outlive_their_log, "inlined"),
    Case("rows in logs: all are written", without.leave_rows_of_other_partitions, "inlined"),
    Case("rows in logs: a merge spares others", without.merge_logs_with_rows, "inlined"),
    Case("22 the clock before the LIST", windows.clock_after_the_list, "windows"),
    Case("22 all that landed late", windows.no_window, "windows"),
    Case("23 for a time", windows.build_on_any_view, "windows"),
    Case("23 replaced logs end", windows.keep_replaced_logs, "windows"),
    Case("25 tombstones stay", windows.forget_tombstones_early, "hasty"),
    Case("folds: list under the lock", without.fold_what_was_listed_before_the_lock, "keepers"),
    Case("folds: know the own log", without.forget_what_a_fold_replaced, "keepers"),
    Case("appenders: one name", gatherers.name_anew_at_once, "gatherers"),
    Case("appenders: until R + Z", gatherers.name_anew_if_it_isnt_there, "gatherers", 8),
    Case("appenders: tombstones", gatherers.not_among_tombstones, "gatherers", 11),
    Case("appenders: send until R", gatherers.send_for_ever, "gatherers", 11),
    Case("appenders: ids of a source", gatherers.forget_ids, "gatherers", 3),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mutation.__name__)
def test_random_seeds_notice(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES[case.shape]
    must_be_noticed(case.mutation, lambda seed: build(seed, shape, watch=True), case.hint, monkeypatch)


SCENARIOS: list[tuple[Mutation, Callable[[], None]]] = [
    (without.stamp_by_own_clock, scenarios.late_append_below_a_merge),
    (without.settle_by_deleting, scenarios.published_while_being_settled),
    (without.replace_by_plain_put, scenarios.replaced_after_it_was_deleted),
    (without.delete_whatever_is_dead, scenarios.dead_file_named_by_a_log_that_stays),
    (without.get_before_the_list_ends, scenarios.logs_read_before_the_list_ended),
    (without.believe_any_etag, scenarios.log_changed_after_the_list),
    (without.merge_under_other_entries, scenarios.column_back_during_a_merge),
    (without.sweep_unconfirmed, scenarios.unlocked.test_a_sweep_that_lost_the_lock_deletes_no_parts),
    (without.restore_at_any_age, scenarios.restored.test_a_restore_that_stalled_is_refused),
    (
        without.settle_by_presence,
        scenarios.unanswered.test_a_batch_whose_place_was_voided_is_not_acknowledged,
    ),
    (
        without.no_second_list,
        scenarios.checkpointed.test_a_cleaned_log_from_the_checkpoint_is_as_new_as_one_from_the_store,
    ),
    (without.checkpoint_by_name, scenarios.published_after_a_checkpoint_had_its_reservation),
    (windows.publish_at_any_time, scenarios.published_long_after_its_stamp),
    (windows.look_at_the_age_before_the_list, scenarios.cleaned_while_the_list_went_on),
]


@pytest.mark.parametrize(
    ("mutation", "scenario"), SCENARIOS, ids=[mutation.__name__ for mutation, _ in SCENARIOS]
)
def test_a_scenario_notices(
    mutation: Mutation, scenario: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_scenario_must_notice(mutation, scenario, monkeypatch)
