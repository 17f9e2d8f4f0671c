"""The key space is cut into shares that cover it, don't overlap, and weigh about the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from firn.keyed.maintain.key_shares import BlockMap, KeyShare, cut

_MAPS = st.lists(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=3), st.integers(1, 50)),
        max_size=12,
        unique_by=lambda b: b[0],
    ),
    max_size=5,
)


@given(_MAPS, st.integers(1, 200))
def test_shares_cover_all_keys_once(blocks: list[list[tuple[bytes, int]]], share_bytes: int) -> None:
    maps = [BlockMap([k for k, _ in sorted(file)], [size for _, size in sorted(file)]) for file in blocks]
    shares = cut(maps, share_bytes)
    assert shares[0].start is None and shares[-1].end is None
    for before, after in itertools.pairwise(shares):
        assert before.end == after.start and before.end is not None
        assert before.start is None or before.start < before.end
    assert sum(share.weight for share in shares) == sum(size for file in blocks for _, size in file)
    for share in shares:
        inside = sum(
            size
            for file in blocks
            for key, size in file
            if (share.start is None or key >= share.start) and (share.end is None or key < share.end)
        )
        assert inside == share.weight


@given(st.lists(st.integers(1, 10), min_size=1, max_size=200), st.integers(10, 100))
def test_shares_of_one_file_are_even(sizes: list[int], share_bytes: int) -> None:
    shares = cut([BlockMap([b"%06d" % n for n in range(len(sizes))], sizes)], share_bytes)
    wanted = sum(sizes) / len(shares)
    assert len(shares) == max(1, min(len(sizes), sum(sizes) // share_bytes)) or len(shares) > 1
    assert all(abs(share.weight - wanted) <= 2 * max(sizes) for share in shares)


def test_no_key_is_cut_in_two() -> None:
    """However many blocks begin with it."""
    maps = [BlockMap([b"a", b"k", b"k", b"k", b"z"], [1, 100, 100, 100, 1])]
    shares = cut(maps, 50)
    assert sum(share.overlaps(b"k", b"k") for share in shares) == 1


def test_nothing_is_one_share() -> None:
    assert cut([], 10) == [KeyShare(None, None, 0)]
