"""Packing of tasks into bins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firn.spark.session.packing import BINS_PER_SLOT, bin_count, chunk, pack

weights = st.lists(st.integers(0, 1 << 32), max_size=60)


@given(weights, st.integers(1, 12))
def test_every_task_is_in_exactly_one_bin_and_no_bin_is_empty(loads: list[int], bins: int) -> None:
    packed = pack(loads, bins)
    assert sorted(task for one in packed for task in one) == list(range(len(loads)))
    assert len(packed) == min(bins, len(loads))
    assert all(packed)


@given(weights.filter(bool), st.integers(1, 12))
def test_the_heaviest_bin_is_within_one_task_of_the_mean(loads: list[int], bins: int) -> None:
    packed = pack(loads, bins)
    overhead = 64 << 10
    totals = [sum(loads[task] + overhead for task in one) for one in packed]
    assert max(totals) <= sum(totals) / len(packed) + max(loads) + overhead
    assert totals == sorted(totals, reverse=True)


@given(weights, st.integers(1, 16))
def test_bins_stay_within_four_a_slot(loads: list[int], slots: int) -> None:
    count = bin_count(loads, slots)
    assert count <= BINS_PER_SLOT * slots
    assert count <= len(loads)
    assert count >= min(slots, len(loads))


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 120))
def test_chunks_are_consecutive_and_within_the_limit(sizes: list[int], limit: int) -> None:
    runs = chunk(sizes, limit)
    assert [position for run in runs for position in run] == list(range(len(sizes)))
    for run in runs:
        assert len(run) == 1 or sum(sizes[position] for position in run) <= limit
