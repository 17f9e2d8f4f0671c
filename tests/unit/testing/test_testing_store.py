"""The simulated store: the bucket protocol, ETags, pages, time."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import firn.testing
from firn.bucket.base import Bucket
from firn.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsupportedError,
)
from firn.testing import SimStore
from firn.testing.store import START_MS


def _modules() -> list[str]:
    return [f"firn.testing.{m.name}" for m in pkgutil.iter_modules(firn.testing.__path__)]


@pytest.mark.parametrize("name", _modules())
def test_the_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_it_is_a_bucket() -> None:
    bucket: Bucket = SimStore().bucket()
    etag = bucket.put("a/b", bytearray(b"hello"))
    assert bucket.get("a/b").data == b"hello"
    assert bucket.get("a/b").info == bucket.head("a/b")
    assert bucket.head("a/b").etag == etag
    assert bucket.get_range("a/b", 1, 3) == b"ell"
    assert bucket.get_ranges("a/b", [(0, 1), (4, 1)]) == [b"h", b"o"]
    assert bucket.put_many([("c", b"1"), ("d", b"2")]) == [bucket.head("c").etag, bucket.head("d").etag]
    found = bucket.get_many(["d", "nothing", "c"])
    assert [None if blob is None else blob.data for blob in found] == [b"2", None, b"1"]
    bucket.delete_many(key for key in ("c", "nothing"))
    bucket.delete("nothing")
    assert [o.key for o in bucket.list("").objects] == ["a/b", "d"]
    assert bucket.uri("a/b") == "sim://store/a/b"
    assert bucket.local_path("a/b") is None
    with pytest.raises(ObjectNotFoundError, match="sim://store/c"):
        bucket.get("c")
    with pytest.raises(ObjectNotFoundError):
        bucket.head("c")
    with pytest.raises(ObjectNotFoundError):
        bucket.get_range("c", 0, 1)


def test_conditional_puts_check_what_is_there() -> None:
    bucket = SimStore().bucket()
    first = bucket.put_if_absent("a", b"1")
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("a", b"2")
    second = bucket.put_if_match("a", b"2", first)
    with pytest.raises(ObjectChangedError, match="another version"):
        bucket.put_if_match("a", b"3", first)
    bucket.delete("a")
    with pytest.raises(ObjectChangedError, match="is gone"):
        bucket.put_if_match("a", b"3", second)


def test_content_etags_let_aba_pass_and_counters_do_not() -> None:
    content, counter = SimStore(), SimStore(etags="counter")
    for store in (content, counter):
        bucket = store.bucket()
        old = bucket.put("a", b"A")
        bucket.put("a", b"B")
        bucket.put("a", b"A")
        assert store.revision("a") == 3
        if store is content:
            bucket.put_if_match("a", b"C", old)
        else:
            with pytest.raises(ObjectChangedError):
                bucket.put_if_match("a", b"C", old)


def test_a_store_without_conditional_puts_says_so() -> None:
    store = SimStore(conditional_put=False)
    bucket = store.bucket()
    assert not bucket.capabilities.conditional_put
    etag = bucket.put("a", b"1")
    with pytest.raises(UnsupportedError, match="sim://store/b"):
        bucket.put_if_absent("b", b"1")
    with pytest.raises(UnsupportedError):
        bucket.put_if_match("a", b"2", etag)
    assert store.contents() == {"a": b"1"}


@pytest.mark.parametrize("page_size", [1, 2, 3, 1000])
def test_lists_come_in_pages(page_size: int) -> None:
    store = SimStore(page_size=page_size)
    bucket = store.bucket()
    for key in ("p/c", "p/a", "q", "p/b", "p0", "p/\U0010ffff\U0010ffff"):
        bucket.put(key, b"")
    below = ["p/a", "p/b", "p/c", "p/\U0010ffff\U0010ffff"]
    before = bucket.counters.list
    listing = bucket.list("p/")
    assert [o.key for o in listing.objects] == below
    assert bucket.counters.list - before == -(-4 // page_size)
    assert listing.atomic == (page_size >= 4)
    assert [o.key for o in bucket.list("p/", after="p/b").objects] == below[2:]
    assert [o.key for o in bucket.list("p/", after="a").objects] == below
    assert [o.key for o in bucket.list("p/", after="z").objects] == []
    assert bucket.list("none").objects == ()
    assert store.keys("p/") == below


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_directories_are_listed_once_each(page_size: int) -> None:
    bucket = SimStore(page_size=page_size).bucket()
    for key in ("a/1", "a/2", "a0", "b/x/1", "b/y/1", "b/z", "c"):
        bucket.put(key, b"")
    assert bucket.list_dirs("") == ["a", "b"]
    assert bucket.list_dirs("b/") == ["x", "y"]
    assert bucket.list_dirs("none/") == []


def test_counters_are_exact() -> None:
    bucket = SimStore(page_size=1).bucket()
    bucket.put_many([("a", b"12"), ("b", b"345")])
    bucket.get_many(["a", "b", "c"])
    bucket.get_ranges("b", [(0, 1), (1, 1)])
    bucket.head("a")
    bucket.list("")
    bucket.delete_many(["a", "b"])
    counted = bucket.counters.as_dict()
    assert counted == {
        "get": 4, "put": 2, "list": 2, "head": 1, "delete": 2, "bytes_in": 7, "bytes_out": 5,
    }  # fmt: skip
    assert bucket.counters.requests == 11


def test_time_is_virtual_and_can_be_coarse() -> None:
    store = SimStore(modified_step_ms=1000)
    bucket = store.bucket(skew_ms=-5000)
    bucket.clock.sleep(1.5)
    assert bucket.clock.monotonic() == 1.5
    assert bucket.clock.now_ms() == START_MS + 1500 - 5000
    bucket.put("a", b"")
    assert bucket.head("a").modified_ms == START_MS + 1000


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a\0b", ".firn-tmp/x", "a" * 1100])
def test_keys_that_no_bucket_has_are_refused_here_too(key: str) -> None:
    bucket = SimStore().bucket()
    for request in (bucket.get, bucket.head, bucket.delete, lambda k: bucket.put(k, b"")):
        with pytest.raises(InvalidInputError):
            request(key)
    with pytest.raises(InvalidInputError):
        bucket.get_range("a", -1, 5)
    with pytest.raises(InvalidInputError, match="list_dirs"):
        bucket.list_dirs("a")


def test_a_copy_goes_its_own_way() -> None:
    store = SimStore()
    bucket = store.bucket()
    bucket.put("a", b"1")
    other = store.copy()
    bucket.put("b", b"2")
    other.bucket().delete("a")
    assert store.contents() == {"a": b"1", "b": b"2"}
    assert other.contents() == {}
    assert len(other) == 0
    assert "a" in store


def test_a_page_of_no_keys_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="page_size"):
        SimStore(page_size=0)
