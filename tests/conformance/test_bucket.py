"""What every bucket does, whatever store is behind it."""

from __future__ import annotations

import pickle
import time
from itertools import pairwise

import pytest

from firn.bucket import Bucket
from firn.errors import (
    InvalidInputError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsupportedError,
)
from stores.places import Place

HOSTILE = [
    "plain",
    "with space",
    "per%20cent",
    "100%",
    "plus+minus-",
    "hash#tag",
    "what?x=1&y=2",
    "[brackets]{braces}",
    "quote'double\"",
    "colon:semi;comma,at@",
    "~tilde^caret`tick|pipe",
    "<angle>",
    "star*dollar$bang!",
    "name=value",
    "...dots",
    "Ünïcødé",
    "日本語",
    "🏔 firn",
    "e\u0301 NFD",
    "\u00e9 NFC",
]


def fill(place: Place, names: list[str]) -> None:
    """Objects of one byte. moto gets them without a request: it takes 2 ms for each."""
    if place.kind != "s3-moto":
        place.open().put_many([(name, b"x") for name in names])
        return
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    for name in names:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(place.url.removeprefix("s3://"), name, b"x")


def keys(bucket: Bucket, prefix: str, after: str | None = None) -> list[str]:
    return [info.key for info in bucket.list(prefix, after=after).objects]


# One object


def test_get_gives_what_was_put(bucket: Bucket) -> None:
    before = int(time.time()) * 1000 - 2000
    etag = bucket.put("a/b", b"hello")
    blob = bucket.get("a/b")
    assert blob.data == b"hello"
    assert (blob.info.key, blob.info.size, blob.info.etag) == ("a/b", 5, etag)
    assert before <= blob.info.modified_ms <= time.time() * 1000 + 2000


def test_every_verb_tells_the_same_version(bucket: Bucket) -> None:
    etag = bucket.put("a/b", b"hello")
    infos = [bucket.get("a/b").info, bucket.head("a/b"), *bucket.list("a/").objects]
    infos += [blob.info for blob in bucket.get_many(["a/b"]) if blob]
    assert len(infos) == 4
    assert {(i.key, i.size, i.etag) for i in infos} == {("a/b", 5, etag)}
    assert len({i.modified_ms // 1000 for i in infos}) == 1


def test_put_replaces(bucket: Bucket) -> None:
    first = bucket.put("k", b"one, longer than the second")
    second = bucket.put("k", b"two")
    assert first != second
    assert bucket.get("k").data == b"two"
    assert bucket.head("k").size == 3


@pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"aXbXcX")[::2]])
def test_put_takes_any_bytes(bucket: Bucket, data: bytearray | memoryview) -> None:
    bucket.put("k", data)
    assert bucket.get("k").data == b"abc"
    assert bucket.counters.bytes_out == 3


def test_an_empty_object_is_an_object(bucket: Bucket) -> None:
    bucket.put("empty", b"")
    assert bucket.get("empty").data == b""
    assert bucket.head("empty").size == 0
    assert keys(bucket, "") == ["empty"]
    assert bucket.get_range("empty", 0, 10) == b""


def test_a_body_of_20_megabytes(bucket: Bucket) -> None:
    body = bytes(range(256)) * (20 * 2**20 // 256)
    bucket.put("big", body)
    assert bucket.get("big").data == body
    assert bucket.get_range("big", 10 * 2**20 + 1, 300) == body[10 * 2**20 + 1 :][:300]


def test_a_body_above_the_limit_of_one_put_goes_in_parts(place: Place, bucket: Bucket) -> None:
    body = bytes(range(251)) * (40 * 2**20 // 251)
    etag = bucket.put("huge", body)
    assert bucket.get("huge").data == body
    assert bucket.head("huge").etag == etag
    requests = {"memory": 1, "directory": 1, "azurite": 3 + 1}.get(place.kind, 3 + 2)
    assert bucket.counters.put == requests


def test_a_missing_object(bucket: Bucket) -> None:
    bucket.put("a/b", b"1")
    for key in ("nothing", "a", "a/b/c", "a/bb"):
        with pytest.raises(ObjectNotFoundError, match=key):
            bucket.get(key)
        with pytest.raises(ObjectNotFoundError, match=key):
            bucket.head(key)
        with pytest.raises(ObjectNotFoundError, match=key):
            bucket.get_range(key, 0, 1)


def test_delete_is_idempotent(bucket: Bucket) -> None:
    bucket.put("a/b", b"1")
    bucket.delete("a/b")
    bucket.delete("a/b")
    bucket.delete("never/there")
    assert keys(bucket, "") == []
    with pytest.raises(ObjectNotFoundError):
        bucket.get("a/b")
    bucket.put_if_absent("a/b", b"2")
    assert bucket.get("a/b").data == b"2"


@pytest.mark.parametrize("name", HOSTILE)
def test_keys_are_taken_literally(bucket: Bucket, name: str) -> None:
    key = f"dir {name}/{name}"
    etag = bucket.put_if_absent(key, b"1")
    etag = bucket.put_if_match(key, b"22", etag)
    assert bucket.get(key).data == b"22"
    assert bucket.get_range(key, 1, 1) == b"2"
    assert bucket.head(key).key == key
    assert keys(bucket, "") == [key]
    assert keys(bucket, key[:-1]) == [key]
    assert bucket.list_dirs("") == [key.split("/")[0]]
    bucket.delete_many([key, key + "x"])
    assert keys(bucket, "") == []


def test_names_of_the_full_length(place: Place, bucket: Bucket) -> None:
    # versitygw makes a file name of it, with a suffix while it replaces an object.
    longest = 220 if place.kind == "s3-versitygw" else 255
    key = "/".join(["é" * 100, "n" * longest, "日" * 70])
    etag = bucket.put_if_absent(key, b"1")
    bucket.put_if_match(key, b"2", etag)
    assert bucket.get(key).data == b"2"
    assert keys(bucket, key[:-1]) == [key]


def test_two_normal_forms_are_two_keys(bucket: Bucket) -> None:
    bucket.put("caf\u00e9", b"composed")
    bucket.put("cafe\u0301", b"decomposed")
    assert bucket.get("caf\u00e9").data == b"composed"
    assert keys(bucket, "caf") == ["cafe\u0301", "caf\u00e9"]


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\0b", "a\nb", "a\x7f", "x" * 256,
     "é" * 128, "/".join(["x" * 200] * 6), "a\ud800", ".firn-tmp/x", ".firn-tmp"],
)  # fmt: skip
def test_no_key_leaves_its_bucket_or_breaks_another_store(bucket: Bucket, key: str) -> None:
    calls = [
        lambda: bucket.get(key),
        lambda: bucket.head(key),
        lambda: bucket.get_range(key, 0, 1),
        lambda: bucket.get_many([key]),
        lambda: bucket.put(key, b""),
        lambda: bucket.put_if_absent(key, b""),
        lambda: bucket.put_if_match(key, b"", "x"),
        lambda: bucket.put_many([(key, b"")]),
        lambda: bucket.delete(key),
        lambda: bucket.delete_many([key]),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="key"):
            call()
    assert bucket.counters.requests == 0


@pytest.mark.parametrize("prefix", ["/", "a//", "../", "a/../", "./x", "a\0", "a\\"])
def test_no_prefix_leaves_its_bucket(bucket: Bucket, prefix: str) -> None:
    with pytest.raises(InvalidInputError, match="key"):
        bucket.list(prefix)
    with pytest.raises(InvalidInputError, match="key"):
        bucket.list_dirs(prefix)


# Ranges


def test_ranges(bucket: Bucket) -> None:
    bucket.put("k", b"0123456789")
    assert bucket.get_range("k", 0, 3) == b"012"
    assert bucket.get_range("k", 7, 3) == b"789"
    assert bucket.get_range("k", 4, 0) == b""
    assert bucket.get_range("k", 8, 100) == b"89"
    assert bucket.get_range("k", 10, 1) == b""
    assert bucket.get_range("k", 1000, 1) == b""
    for start, length in ((-1, 2), (2, -1)):
        with pytest.raises(InvalidInputError, match="range"):
            bucket.get_range("k", start, length)


def test_neighbouring_ranges_share_a_request(bucket: Bucket) -> None:
    body = bytes(i % 251 for i in range(400_000))
    bucket.put("k", body)
    wanted = [(300_000, 10), (0, 5), (65_000, 100), (3, 4), (399_990, 100), (7, 0)]
    assert bucket.get_ranges("k", wanted) == [body[s : s + n] for s, n in wanted]
    assert bucket.counters.get == 3
    assert bucket.counters.bytes_in == 65_100 + 10 + 10
    assert bucket.get_ranges("k", []) == []
    assert bucket.counters.get == 3


# Conditional puts


def test_put_if_absent_creates_once(bucket: Bucket) -> None:
    etag = bucket.put_if_absent("k", b"first")
    with pytest.raises(ObjectExistsError, match="k exists"):
        bucket.put_if_absent("k", b"second")
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("k", b"first")
    assert bucket.get("k").data == b"first"
    assert bucket.head("k").etag == etag


def test_put_if_match_replaces_exactly_that_version(bucket: Bucket) -> None:
    first = bucket.put("k", b"first")
    second = bucket.put_if_match("k", b"second", first)
    with pytest.raises(ObjectChangedError, match="k is not at the expected version"):
        bucket.put_if_match("k", b"third", first)
    assert bucket.get("k").data == b"second"
    assert bucket.put_if_match("k", b"third", second) == bucket.head("k").etag


def test_put_if_match_takes_the_version_that_get_and_list_tell(bucket: Bucket) -> None:
    bucket.put("k", b"1")
    bucket.put_if_match("k", b"2", bucket.get("k").info.etag)
    bucket.put_if_match("k", b"3", bucket.list("k").objects[0].etag)
    bucket.put_if_match("k", b"4", bucket.head("k").etag)
    assert bucket.get("k").data == b"4"


def test_put_if_match_never_creates(bucket: Bucket) -> None:
    etag = bucket.put("k", b"1")
    bucket.delete("k")
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("k", b"2", etag)
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("never/there", b"2", etag)
    assert keys(bucket, "") == []


def test_versions_that_differ_in_a_nonce_differ(bucket: Bucket) -> None:
    """A → B → A' of one size, faster than any clock ticks: the first version must not pass for the third."""
    seen = set()
    for n in range(50):
        seen.add(bucket.put("k", b"%04d" % n))
    assert len(seen) == 50


def test_conditional_puts_can_be_switched_off(place: Place) -> None:
    bucket = place.open(conditional_put="disabled")
    assert place.open().capabilities.conditional_put
    assert not bucket.capabilities.conditional_put
    etag = bucket.put("k", b"1")
    with pytest.raises(UnsupportedError, match="conditional_put"):
        bucket.put_if_absent("new", b"2")
    with pytest.raises(UnsupportedError, match="conditional_put"):
        bucket.put_if_match("k", b"2", etag)
    assert keys(bucket, "") == ["k"]


# Listing


def test_a_prefix_is_a_string(bucket: Bucket) -> None:
    names = ["a", "a.b", "a0", "aa/x", "ab/1/2", "ab/1-2", "ab!", "b"]
    for name in names:
        bucket.put(name if name != "a" else "a-", b"")
    everything = sorted("a-" if name == "a" else name for name in names)
    assert keys(bucket, "") == everything
    for prefix in ("a", "ab", "ab/", "ab/1", "ab/1/", "ab/1/2", "ab/1/23", "b", "c", "a-", "a.", "zz/y"):
        assert keys(bucket, prefix) == [k for k in everything if k.startswith(prefix)], prefix


def test_keys_come_in_string_order_not_directory_order(bucket: Bucket) -> None:
    names = ["a/z", "a-b", "a.b", "a0", "a/é", "a/e", "a\U0001f600", "a\uffee", "B", "a/Z", "a b"]
    bucket.put_many([(name, b"") for name in names])
    assert keys(bucket, "") == sorted(names)


@pytest.mark.parametrize(
    "after", ["", "a", "a/", "a/1", "a/1~", "a/2", "a/3/", "a/3/5", "a/9", "a0", "b", "0", "a/3"]
)
def test_after_is_exclusive(bucket: Bucket, after: str) -> None:
    names = ["a/1", "a/2", "a/3/4", "a/3/5", "a/3.5", "a/4", "b/1", "a.1"]
    bucket.put_many([(name, b"") for name in names])
    for prefix in ("", "a/", "a/3", "b"):
        expected = sorted(name for name in names if name.startswith(prefix) and name > after)
        assert keys(bucket, prefix, after) == expected, prefix


def test_a_listing_longer_than_a_page(place: Place, bucket: Bucket) -> None:
    names = [f"p/{i:05}" for i in range(2001)]
    bucket.put("q", b"")
    fill(place, names[:1000])
    reader = place.open()
    assert len(reader.list("p/").objects) == 1000
    assert reader.counters.list == 1, "a page that is just full"
    fill(place, names[1000:])
    reader = place.open()
    listing = reader.list("p/")
    assert [info.key for info in listing.objects] == names
    assert listing.atomic == (place.kind in ("memory", "azurite"))
    pages = 3 if place.kind.startswith("s3") else 1
    assert reader.counters.list == pages
    tail = reader.list("p/01", after="p/01900")
    assert [info.key for info in tail.objects] == names[1901:2000]
    head = reader.list("p/000")
    assert [info.key for info in head.objects] == names[:100]
    for one_page in (tail, head):
        assert one_page.atomic == (place.kind != "directory")
    assert reader.counters.list == pages + 2


def test_a_short_listing_of_a_store_is_of_one_moment(place: Place, bucket: Bucket) -> None:
    bucket.put("a", b"")
    assert bucket.list("").atomic == (place.kind != "directory")
    assert bucket.list("nothing").objects == ()


def test_list_dirs(bucket: Bucket) -> None:
    for key in ("top", "a/1", "a/b/2", "a/b c/3", "a/é/4", "d/e/f/5", "a.b/6"):
        bucket.put(key, b"")
    assert bucket.list_dirs("") == ["a", "a.b", "d"]
    assert bucket.list_dirs("a/") == ["b", "b c", "é"]
    assert bucket.list_dirs("d/e/") == ["f"]
    assert bucket.list_dirs("d/e/f/") == []
    assert bucket.list_dirs("nothing/") == []
    with pytest.raises(InvalidInputError, match="ends in '/'"):
        bucket.list_dirs("a")


def test_list_dirs_shows_no_directory_without_objects(bucket: Bucket) -> None:
    bucket.put("a/b/c/1", b"")
    bucket.put("a/2", b"")
    bucket.delete("a/b/c/1")
    assert bucket.list_dirs("") == ["a"]
    assert bucket.list_dirs("a/") == []
    bucket.delete("a/2")
    assert bucket.list_dirs("") == []


def test_an_empty_bucket(bucket: Bucket) -> None:
    assert bucket.list("").objects == ()
    assert bucket.list_dirs("") == []
    assert bucket.get_many(["a", "b"]) == [None, None]
    bucket.delete_many(["a", "b"])
    bucket.delete_many([])
    assert bucket.get_many([]) == []
    assert bucket.put_many([]) == []


# Many at once


def test_many_at_once_keep_their_order(bucket: Bucket) -> None:
    items = [(f"m/{i % 7}/{i}", b"%d" % i) for i in range(200)]
    etags = bucket.put_many(items)
    wanted = ["m/missing", *reversed([key for key, _ in items]), "m/0/missing"]
    blobs = bucket.get_many(wanted)
    assert blobs[0] is None
    assert blobs[-1] is None
    found = [blob for blob in blobs if blob is not None]
    assert [(b.info.key, b.data) for b in found] == items[::-1]
    assert [b.info.etag for b in found] == etags[::-1]


def test_delete_many(place: Place, bucket: Bucket) -> None:
    fill(place, [f"m/{i:04}" for i in range(1010)])
    bucket.delete_many(key for key in [f"m/{i:04}" for i in range(1009)] + ["m/missing", "m/0001"])
    assert keys(bucket, "") == ["m/1009"]


def test_an_error_among_many_is_raised(bucket: Bucket) -> None:
    with pytest.raises(InvalidInputError):
        bucket.put_many([("ok", b""), ("not//ok", b"")])
    with pytest.raises(InvalidInputError):
        bucket.get_many(["ok", "not//ok"])
    with pytest.raises(InvalidInputError):
        bucket.delete_many(["ok", "not//ok"])


# Counters


def test_counters_are_exact(place: Place, bucket: Bucket) -> None:
    bucket.put("a", b"12345")
    etag = bucket.put_if_absent("b", b"123")
    bucket.put_if_match("b", b"1234", etag)
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("b", b"12")
    bucket.get("a")
    bucket.get_range("b", 1, 2)
    bucket.get_range("b", 100, 2)
    bucket.get_many(["a", "b", "missing"])
    with pytest.raises(ObjectNotFoundError):
        bucket.get("missing")
    bucket.head("a")
    bucket.list("")
    bucket.list_dirs("")
    bucket.delete("missing")
    bucket.delete_many(["a", "b"])
    bulk = place.kind.startswith("s3")
    expected = {
        "put": 4,
        "get": 7,
        "head": 1,
        "list": 2,
        "delete": 2 if bulk else 3,
        "bytes_in": 5 + 2 + 5 + 4,
        "bytes_out": 5 + 3 + 4 + 2,
    }
    assert bucket.counters.as_dict() == expected
    assert bucket.counters.requests == 17 - bulk


def test_counters_agree_with_what_the_server_saw(place: Place, bucket: Bucket) -> None:
    if place.kind != "s3-moto":
        assert place.seen == []
        return
    fill(place, [f"p/{i:04}" for i in range(1001)])
    bucket.put_many([(f"p/{i:04}", b"y") for i in range(50)])
    bucket.put("huge", bytes(33 * 2**20))
    bucket.list("p/")
    bucket.list("p/1")
    bucket.list("h")
    bucket.list_dirs("")
    bucket.get_many([f"p/{i:04}" for i in range(50)])
    bucket.get_ranges("huge", [(0, 1), (2**20, 1)])
    bucket.delete("huge")
    bucket.delete_many([f"p/{i:04}" for i in range(1001)])
    verbs = [line.split()[0] for line in place.seen]
    counters = bucket.counters
    assert len(verbs) == counters.requests
    lists = sum("list-type=2" in line for line in place.seen)
    deletes = sum(line.endswith("?delete") for line in place.seen)
    assert (counters.list, counters.delete) == (lists, deletes) == (5, 3)
    assert counters.get == verbs.count("GET") - lists
    assert counters.put == verbs.count("PUT") + verbs.count("POST") - deletes


# Identity


def test_names(place: Place, bucket: Bucket) -> None:
    assert bucket.uri("a/b%20c") == f"{bucket.url}/a/b%20c"
    assert bucket.url in (place.url, f"file://{place.url}")
    assert (bucket.local_path("a/b") is not None) == (place.kind == "directory")
    for secret in ("firn-test-secret", "Eby8vdM02"):
        assert secret not in repr(bucket) + bucket.url + str(vars(bucket).get("_options"))


def test_a_client_travels_to_another_process(place: Place, bucket: Bucket) -> None:
    bucket.put("k", b"1")
    assert bucket.capabilities.shareable == (place.kind != "memory")
    if place.kind == "memory":
        with pytest.raises(UnsupportedError, match="memory"):
            pickle.dumps(bucket)
        return
    copy = pickle.loads(pickle.dumps(bucket))
    assert copy.get("k").data == b"1"
    assert copy.url == bucket.url
    assert copy.counters.requests == 1
    assert not pickle.loads(pickle.dumps(place.open(conditional_put="disabled"))).capabilities.conditional_put


def test_a_bucket_that_does_not_exist(place: Place) -> None:
    if place.kind in ("memory", "directory"):
        assert place.open().list("").objects == ()  # these two begin to exist with their first object
        return
    missing = Place(place.kind, place.url + "-none", place.options).open()
    for call in (lambda: missing.put("k", b""), lambda: missing.list(""), lambda: missing.get_many(["k"])):
        with pytest.raises(NotFoundError, match="the bucket does not exist") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFoundError)


def test_modification_times_never_run_backwards(bucket: Bucket) -> None:
    times = []
    for n in range(5):
        bucket.put("k", b"%d" % n)
        times.append(bucket.head("k").modified_ms)
    assert all(a <= b for a, b in pairwise(times))
