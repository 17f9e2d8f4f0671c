"""URLs, options, and what doesn't depend on the store."""

from __future__ import annotations

import doctest
import importlib
import pickle
import random
import threading
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import firn.bucket
from firn.bucket import Counters, LocalBucket, ObjectStoreBucket, open_bucket, split_url
from firn.bucket.options import sort_options
from firn.bucket.ranges import Span, coalesce, fetch
from firn.bucket.urls import parse_url
from firn.concurrency.parallel import in_flight
from firn.errors import InvalidInputError, ObjectChangedError, ObjectNotFoundError
from stores.scripted import Reply, ScriptedServer

AZURE = {"account_name": "acct", "account_key": "c2VjcmV0LWF6dXJlLWtleQ=="}


def test_examples_in_the_docstrings_hold() -> None:
    tried = 0
    for name in ("", ".urls", ".ranges"):
        result = doctest.testmod(importlib.import_module(f"firn.bucket{name}"))
        tried += result.attempted
        assert result.failed == 0
    assert tried >= 7


# URLs


@pytest.mark.parametrize(
    ("url", "root", "prefix"),
    [
        ("s3://b", "s3://b", ""),
        ("s3://b/", "s3://b", ""),
        ("s3://b/prod", "s3://b", "prod"),
        ("s3a://b/prod/eu/", "s3://b", "prod/eu"),
        ("S3://b/Prod", "s3://b", "Prod"),
        ("gs://b.example.com/p", "gs://b.example.com", "p"),
        ("az://container/p/q", "az://container", "p/q"),
        (
            "abfss://c@acct.dfs.core.windows.net/p",
            "abfss://c@acct.dfs.core.windows.net",
            "p",
        ),
        ("memory://", "memory://", ""),
        ("memory:///p", "memory://", "p"),
        ("memory://name", "memory://name", ""),
        ("memory://name/a/b", "memory://name", "a/b"),
        ("/srv/db", "file:///srv/db", ""),
        ("/srv/db/../other/", "file:///srv/other", ""),
        ("file:///srv/a%20b", "file:///srv/a%20b", ""),
        ("file:/srv/db", "file:///srv/db", ""),
        ("file://localhost/srv/db", "file:///srv/db", ""),
        ("s3://b/with space/%41?#", "s3://b", "with space/%41?#"),
    ],
)
def test_split_url(url: str, root: str, prefix: str) -> None:
    assert split_url(url) == (root, prefix)
    assert split_url(root) == (root, "")


def test_a_path_object_is_a_directory(tmp_path: Path) -> None:
    assert split_url(tmp_path) == (f"file://{tmp_path}", "")


def test_azure_names_its_account() -> None:
    address = parse_url("abfss://c@acct.dfs.core.windows.net/p")
    assert (address.kind, address.name, address.account) == ("azure", "c", "acct")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "is not a URL"),
        (None, "is not a URL"),
        (3, "is not a URL"),
        ("ftp://host/x", "ftp:// is not a scheme.*s3://.*gs://.*az://.*memory://"),
        ("https://user:hunter22@host/x", "https:// is not a scheme"),
        ("s3://", "names a bucket first"),
        ("s3:///x", "names a bucket first"),
        ("s3://AKIAKEY:hunter22@b/x", "credentials belong into"),
        ("s3://b/a//b", "empty"),
        ("s3://b/a/../b", "segment"),
        ("gs://b/\x07", "control"),
        ("file://host/x", "names the host 'host'"),
        ("file://", "no absolute path"),
        ("file:x", "no absolute path"),
        ("/a\0b", "NUL"),
    ],
)
def test_what_is_no_url_is_refused(url: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        split_url(url)
    assert "hunter22" not in str(caught.value)


def test_a_path_inside_a_bucket_is_not_its_root() -> None:
    with pytest.raises(InvalidInputError, match="split_url"):
        open_bucket("memory://name/path")


# Which bucket


def test_memory_without_a_name_is_new_each_time() -> None:
    open_bucket("memory://").put("k", b"1")
    assert open_bucket("memory://").list("").objects == ()


def test_memory_with_a_name_is_one_a_process() -> None:
    open_bucket("memory://one-name").put("k", b"1")
    assert open_bucket("memory://one-name").get("k").data == b"1"
    with pytest.raises(ObjectNotFoundError, match="memory://another-name/k"):
        open_bucket("memory://another-name").get("k")


def test_a_directory_opens_as_one(tmp_path: Path) -> None:
    assert isinstance(open_bucket(f"file://{tmp_path}"), LocalBucket)
    with pytest.raises(InvalidInputError, match="is not a directory"):
        LocalBucket("s3://b")
    with pytest.raises(InvalidInputError, match="is a directory"):
        ObjectStoreBucket(str(tmp_path))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b", {"region": "eu-central-1", "timeout": "10s", "allow_http": True, "max_retries": 2}),
        ("s3://b", {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "hunter22"}),
        ("gs://b", {"skip_signature": True, "timeout": 5}),
        ("gs://b", {"google_base_url": "http://127.0.0.1:1", "allow_http": True, "skip_signature": "true"}),
        ("az://c", AZURE),
        ("abfss://c@acct.dfs.core.windows.net", {"account_key": AZURE["account_key"]}),
    ],
)
def test_a_store_is_made_from_options_without_a_request(url: str, options: dict[str, Any]) -> None:
    bucket = open_bucket(url, options=options)
    assert bucket.url == url
    assert bucket.uri("a/b") == f"{url}/a/b"
    assert bucket.capabilities.conditional_put
    assert bucket.capabilities.shareable
    assert bucket.counters.requests == 0
    assert bucket.local_path("a/b") is None
    assert "hunter22" not in repr(bucket)
    copy = pickle.loads(pickle.dumps(bucket))
    assert (copy.url, copy.capabilities) == (bucket.url, bucket.capabilities)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("s3://b", {"no_such_option": "x"}, "no_such_option"),
        ("gs://b", {"aws_region": "x", "skip_signature": True}, "aws_region"),
        ("az://c", {**AZURE, "bucket_color": "x"}, "bucket_color"),
        ("az://c", {}, "Account must be specified"),
        ("memory://", {"region": "x"}, "region"),
        ("/tmp/x", {"timeout": "1s", "fsync": False}, "fsync, timeout"),
        ("s3://b", {"region": "x", "aws_region": "y"}, "Duplicate key"),
        ("s3://b", {"region": ["x"]}, "region is a list"),
        ("s3://b", {"timeout": "soon"}, "not a duration"),
        ("s3://b", {"max_retries": -1}, "max_retries"),
        ("s3://b", {"max_retries": "many"}, "max_retries"),
        ("s3://b", {"retry_timeout": "-1s"}, "not a duration"),
        ("s3://b", {"conditional_put": "maybe"}, "conditional_put"),
        ("/tmp/x", {"conditional_put": "maybe"}, "conditional_put"),
        ("az://c", {**AZURE, "account_key": "%% not base64 %%"}, "cannot open az://c"),
    ],
)
def test_a_wrong_option_is_named(url: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        open_bucket(url, options=options)
    assert "not base64" not in str(caught.value)


def test_conditional_puts_are_switched_off_by_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    assert not open_bucket("s3://b").capabilities.conditional_put
    assert open_bucket("s3://b", options={"conditional_put": "etag"}).capabilities.conditional_put


def test_time_limits_reach_the_client() -> None:
    options = sort_options(
        "s3", {"timeout": timedelta(seconds=90), "read_timeout": 1.5, "retry_timeout": "1h"}
    )
    assert (options.client["timeout"], options.client["read_timeout"]) == ("90000ms", "1500ms")
    assert options.client["connect_timeout"] == "5000ms"
    assert options.retry.retry_for == 3600


def test_options_are_never_shown() -> None:
    options = sort_options(
        "s3", {"secret_access_key": "hunter22", "default_headers": {"x-token": "hunter23"}}
    )
    assert "hunter2" not in repr(options)
    assert set(options.secrets) == {"hunter22", "hunter23"}


def test_bulk_delete_can_be_switched_off() -> None:
    assert sort_options("s3", None).bulk_delete
    assert not sort_options("s3", {"disable_bulk_delete": True}).bulk_delete
    assert not sort_options("s3", {"aws_disable_bulk_delete": "true"}).bulk_delete
    assert not sort_options("gcs", None).bulk_delete


# GCS, against a script: what is sent, not what a server makes of it


def test_gcs_compares_generations() -> None:
    head = {"ETag": '"e1"', "x-goog-generation": "7", "Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT"}
    put = Reply(200, headers={"ETag": '"e2"', "x-goog-generation": "8"})
    with ScriptedServer(
        [Reply(200, headers=head), put, Reply(200, headers=head), Reply(404)]
    ).running() as server:
        options = {
            "google_base_url": server.url,
            "allow_http": True,
            "bearer_token": "t0ken",
            "max_retries": 0,
        }
        bucket = ObjectStoreBucket("gs://b", options, rng=random.Random(0))
        assert bucket.put_if_match("dir/k", b"new", '"e1"') == '"e2"'
        for _ in ("another version", "deleted"):
            with pytest.raises(ObjectChangedError, match="gs://b/dir/k"):
                bucket.put_if_match("dir/k", b"new", '"e0"')
    assert [r.method for r in server.requests] == ["HEAD", "PUT", "HEAD", "HEAD"]
    assert server.requests[1].headers["x-goog-if-generation-match"] == "7"
    assert (bucket.counters.head, bucket.counters.put) == (3, 1)


# Ranges, counters, requests in flight


def test_ranges_are_coalesced_by_their_gaps() -> None:
    assert coalesce([(0, 10), (20, 10)], max_gap=10) == [Span(0, 30, (0, 1))]
    assert coalesce([(0, 10), (21, 10)], max_gap=10) == [Span(0, 10, (0,)), Span(21, 10, (1,))]
    assert coalesce([(0, 100), (10, 5), (99, 2)], max_gap=0) == [Span(0, 101, (0, 1, 2))]
    assert coalesce([(5, 0)]) == []
    with pytest.raises(InvalidInputError, match="range"):
        coalesce([(0, 1), (-1, 5)])


def test_random_ranges_give_their_bytes() -> None:
    rng = random.Random(1)
    body = rng.randbytes(500_000)
    for _ in range(50):
        ranges = [(rng.randrange(510_000), rng.choice([0, 1, 1000, 70_000])) for _ in range(rng.randrange(8))]
        spans: list[tuple[int, int]] = []

        def read(start: int, length: int, spans: list[tuple[int, int]] = spans) -> bytes:
            spans.append((start, length))
            return body[start : start + length]

        assert fetch(ranges, read) == [body[s : s + n] for s, n in ranges]
        ends = [start + length for start, length in spans]
        assert all(start - end > 64 * 1024 for end, (start, _) in zip(ends, spans[1:], strict=False))


def test_spans_of_one_object_are_read_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_bucket("s3://b", options={"skip_signature": "true", "region": "us-east-1"})
    both = threading.Barrier(2, timeout=60)

    def get_range(self: object, key: str, start: int, length: int) -> bytes:
        both.wait()
        return b"x" * length

    monkeypatch.setattr(type(bucket), "get_range", get_range)
    assert bucket.get_ranges("k", [(0, 2), (10**6, 3)]) == [b"xx", b"xxx"]


def test_counters_add_up_and_travel() -> None:
    counters = Counters()
    threads = [
        threading.Thread(target=lambda: [counters.add(get=1, bytes_in=2) for _ in range(500)]) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copy = pickle.loads(pickle.dumps(counters))
    assert copy.as_dict() == counters.as_dict()
    assert (copy.get, copy.bytes_in, copy.requests) == (1000, 2000, 1000)
    copy.add(put=1)
    assert counters.put == 0


def test_many_requests_are_in_flight_at_once() -> None:
    all_there = threading.Barrier(32)
    assert in_flight(lambda x: (all_there.wait(10), x)[1], list(range(64))) == list(range(64))


def test_the_first_error_ends_a_flight() -> None:
    begun: list[int] = []

    def fail_at_three(n: int) -> int:
        begun.append(n)
        if n == 3:
            raise KeyError(n)
        return n

    with pytest.raises(KeyError):
        in_flight(fail_at_three, list(range(100)), limit=1)
    assert begun == [0, 1, 2, 3]


def test_all_names_are_there() -> None:
    assert all(hasattr(firn.bucket, name) for name in firn.bucket.__all__)


def test_what_cant_change_is_put_without_a_copy() -> None:
    bucket = open_bucket("memory://")
    size = 8 << 20
    body = bytearray(b"x" * size)
    tracemalloc.start()
    try:
        bucket.put("key", memoryview(body).toreadonly())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < size / 2
    assert bucket.get("key").data == body


def test_what_may_change_is_copied() -> None:
    bucket = open_bucket("memory://")
    body = bytearray(b"x" * (8 << 20))
    for key, data in (("array", body), ("view", memoryview(body))):
        bucket.put(key, data)
        body[0] = ord("y")
        assert bucket.get(key).data[:1] == b"x"
        body[0] = ord("x")
