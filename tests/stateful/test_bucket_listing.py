"""Listings of a directory and of a store agree with a sorted dict, whatever the keys."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from firn.bucket import Bucket, LocalBucket, open_bucket

# Few letters, around '/' in the order of characters, so that prefixes and directories collide.
_SEGMENT = st.text("a-.0é~ ", min_size=1, max_size=3).filter(lambda s: s not in (".", ".."))
_KEY = st.lists(_SEGMENT, min_size=1, max_size=3).map("/".join)


def _beginning(key: str, length: int) -> str:
    text = key[:length]
    return text[:-1] if text.endswith("/") and length % 2 else text


_PREFIX = st.builds(_beginning, _KEY, st.integers(0, 8))


def _without_nesting(keys: list[str]) -> list[str]:
    """A directory can't hold both an object and objects below it."""
    kept: list[str] = []
    for key in keys:
        if not any(key.startswith(f"{k}/") or k.startswith(f"{key}/") or k == key for k in kept):
            kept.append(key)
    return kept


def _check(bucket: Bucket, keys: list[str], gone: list[str], prefix: str, after: str | None) -> None:
    bucket.put_many([(key, key.encode()) for key in keys])
    bucket.delete_many(gone)
    left = sorted(set(keys) - set(gone))
    wanted = [k for k in left if k.startswith(prefix) and (after is None or k > after)]
    assert [info.key for info in bucket.list(prefix, after=after).objects] == wanted
    parent = prefix[: prefix.rfind("/") + 1]
    below = {k[len(parent) :].split("/")[0] for k in left if k.startswith(parent) and "/" in k[len(parent) :]}
    assert bucket.list_dirs(parent) == sorted(below)
    assert [blob and blob.data for blob in bucket.get_many(keys)] == [
        None if key in gone else key.encode() for key in keys
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(_KEY, max_size=12), st.data())
def test_listings_agree_with_a_sorted_dict(keys: list[str], data: st.DataObject) -> None:
    keys = _without_nesting(keys)
    gone = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    prefix = data.draw(_PREFIX)
    after = data.draw(st.none() | _KEY | _PREFIX)
    _check(open_bucket("memory://"), keys, gone, prefix, after)
    with tempfile.TemporaryDirectory() as path:
        _check(LocalBucket(path), keys, gone, prefix, after)


def test_a_place_to_list_from_may_end_in_dots() -> None:
    keys = ["0/-", "0/.a", "0/..b", "0/a", "0.", "a"]
    for after in ("0/.", "0/..", ".", "..", "0/"):
        _check(open_bucket("memory://"), keys, [], "", after)
        with tempfile.TemporaryDirectory() as path:
            _check(LocalBucket(path), keys, [], "", after)
