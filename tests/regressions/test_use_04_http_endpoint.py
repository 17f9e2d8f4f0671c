"""An endpoint of http:// took 14–27 s for each command, and no message named `allow_http`."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from obstore.exceptions import GenericError

import firn
from cli_runs import run
from firn.bucket import ObjectStoreBucket
from firn.bucket.failures import Meaning, classify
from firn.errors import InvalidInputError, StoreUnavailableError
from stores.scripted import ScriptedServer
from unit.bucket.test_bucket_retry import PUT, SLOW_DOWN, Clock

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region": "us-east-1"}


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(default=PUT).running() as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


def bucket(clock: Clock, **options: Any) -> ObjectStoreBucket:
    return ObjectStoreBucket("s3://bucket", {**KEYS, **options}, clock=clock, rng=random.Random(0))


@pytest.mark.parametrize("name", ["endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url"])
def test_an_endpoint_that_begins_with_http_allows_http(
    server: ScriptedServer, clock: Clock, name: str
) -> None:
    assert bucket(clock, **{name: server.url}).put("k", b"v")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_so_does_one_in_the_environment(
    server: ScriptedServer, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, server.url)
    assert bucket(clock).put("k", b"v")


def test_what_is_said_of_http_counts(
    server: ScriptedServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ({"allow_http": False}, {"aws_allow_http": "false"}):
        with pytest.raises(StoreUnavailableError, match=r"http:// isn't allowed.*allow_http"):
            bucket(clock, endpoint=server.url, **said).put("k", b"v")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    with pytest.raises(StoreUnavailableError, match="allow_http"):
        bucket(clock, endpoint=server.url).put("k", b"v")
    assert bucket(clock, endpoint=server.url, allow_http=True).put("k", b"v")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert bucket(clock, endpoint=server.url).put("k", b"v")
    assert clock.slept == []


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "minio:9000", "http://", "http://a b", "//host"])
def test_an_endpoint_that_is_no_url_is_an_error_at_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    with pytest.raises(InvalidInputError, match=r"the option endpoint is no URL.*http://host:9000"):
        firn.connect("s3://bucket/prod", options={"endpoint": endpoint})
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(InvalidInputError, match="AWS_ENDPOINT_URL in the environment is no URL"):
        firn.connect("s3://bucket/prod")


def connect_error(inner: str) -> GenericError:
    return GenericError(f"Generic S3 error: HTTP error\n\nDebug source:\nkind: Connect,\n{inner}")


@pytest.mark.parametrize(
    ("inner", "meaning", "reason"),
    [
        ('"dns error" "… Name or service not known"', Meaning.UNREACHABLE, "unknown.*endpoint and region"),
        ('"dns error" "… Temporary failure in name resolution"', Meaning.FAILED, "unknown"),
        ("error: InvalidCertificate(UnknownIssuer)", Meaning.UNREACHABLE, "root_certificate"),
        ("error: InvalidMessage(InvalidContentType)", Meaning.UNREACHABLE, "TLS.*http://"),
        ("kind: ConnectionRefused", Meaning.FAILED, "connection refused"),
    ],
)
def test_what_no_retry_mends_is_tried_a_few_times_only(inner: str, meaning: Meaning, reason: str) -> None:
    failure = classify(connect_error(inner))
    assert failure.meaning is meaning
    assert re.search(reason, failure.reason)


def test_from_the_third_second_on_the_log_says_that_a_call_is_tried_again(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer([SLOW_DOWN] * 9, PUT).running() as server:
        store = bucket(clock, endpoint=server.url)
        with caplog.at_level(logging.WARNING, "firn"):
            assert store.put("k", b"v")
    assert caplog.messages
    for message in caplog.messages:
        assert message.startswith("s3://bucket/k: cannot write (503 SlowDown")
        assert message.endswith("; trying again for up to 120 s")
    assert len(caplog.messages) <= 1 + clock.monotonic() / 10


def test_a_short_call_says_nothing(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer([SLOW_DOWN] * 3, PUT).running() as server:
        assert bucket(clock, endpoint=server.url).put("k", b"v")
    assert caplog.messages == []


def test_the_shell_prints_what_the_log_warns_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def tables(self: object, kind: object = None) -> list[str]:
        logging.getLogger("firn").warning("s3://bucket/k: cannot list (slow); trying again")
        logging.getLogger("firn.keyed").warning("another")
        return []

    monkeypatch.setattr("firn.database.database.Database.tables", tables)
    before = list(logging.getLogger("firn").handlers)
    found = run("tables", "memory://")
    assert found.err.splitlines()[:2] == [
        "warning: s3://bucket/k: cannot list (slow); trying again",
        "warning: another",
    ]
    assert logging.getLogger("firn").handlers == before
