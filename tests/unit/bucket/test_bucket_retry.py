"""What is known after an error: an S3 client against a server that fails by script."""

from __future__ import annotations

import contextlib
import random
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from obstore.exceptions import GenericError

from firn.bucket import Bucket, ObjectStoreBucket
from firn.bucket.conditional import create, swap
from firn.bucket.failures import scrub
from firn.bucket.retry import Retrier, RetryPolicy
from firn.errors import (
    AccessDeniedError,
    FirnError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)
from stores.scripted import DROP, HANG, Reply, Request, ScriptedServer, Step

SECRET = "wJalrXUtnFEMIsecretEXAMPLEKEY"
KEY_ID = "AKIAIOSFODNN7EXAMPLE"
ETAG = '"0123456789abcdef"'


class Clock:
    """Turned by sleeping alone."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def error(status: int, code: str, message: str = "said the server") -> Reply:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


PUT = Reply(200, headers={"ETag": ETAG})
SLOW_DOWN = error(503, "SlowDown")
TOO_MANY = error(429, "TooManyRequests")
INTERNAL = error(500, "InternalError")
GATEWAY = Reply(502, b"<html>Bad Gateway</html>")
TIMEOUT = Reply(504)
REFUSED = error(412, "PreconditionFailed")
UNDECIDED = error(409, "ConditionalRequestConflict")
MISSING = error(404, "NoSuchKey")
NO_BUCKET = error(404, "NoSuchBucket")
FORBIDDEN = error(403, "AccessDenied")

FAILED = [SLOW_DOWN, TOO_MANY, error(503, "ServiceUnavailable"), error(400, "RequestTimeout"), Reply(408)]
IN_DOUBT = [INTERNAL, GATEWAY, TIMEOUT, DROP, HANG, Reply(200)]  # the last lacks its ETag


def body(data: bytes, etag: str = ETAG) -> Reply:
    return Reply(200, data, {"ETag": etag, "Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT"})


@pytest.fixture
def clock() -> Clock:
    return Clock()


Scripted = Callable[..., tuple[Bucket, ScriptedServer]]


@pytest.fixture
def scripted(clock: Clock) -> Iterator[Scripted]:
    with contextlib.ExitStack() as stack:

        def make(*steps: Step, default: Step | None = None, **options: Any) -> tuple[Bucket, ScriptedServer]:
            default = default if default is not None else (steps[-1] if steps else PUT)
            server = stack.enter_context(ScriptedServer(steps, default).running())
            return client(server.url, clock, **options), server

        yield make


def client(url: str, clock: Clock, **options: Any) -> Bucket:
    settings = {
        "endpoint": url,
        "aws_access_key_id": KEY_ID,
        "aws_secret_access_key": SECRET,
        "allow_http": True,
        "read_timeout": "300ms",
        "max_retries": 3,
        **options,
    }
    return ObjectStoreBucket("s3://bucket", settings, clock=clock, rng=random.Random(7))


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


WRITES: dict[str, Callable[[Bucket], object]] = {
    "put": lambda b: b.put("dir/k", b"data"),
    "put_if_absent": lambda b: b.put_if_absent("dir/k", b"data"),
    "put_if_match": lambda b: b.put_if_match("dir/k", b"data", ETAG),
    "delete": lambda b: b.delete("dir/k"),
}
READS: dict[str, Callable[[Bucket], object]] = {
    "get": lambda b: b.get("dir/k"),
    "get_range": lambda b: b.get_range("dir/k", 0, 4),
    "head": lambda b: b.head("dir/k"),
    "list": lambda b: b.list("dir/k"),
    "list_dirs": lambda b: b.list_dirs("dir/k/"),
}


# Known not to have happened, or in doubt


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("step", FAILED, ids=lambda s: str(s.status))
def test_a_refused_write_is_known_not_to_have_happened(
    scripted: Scripted, clock: Clock, verb: str, step: Reply
) -> None:
    bucket, server = scripted(step)
    with pytest.raises(StoreUnavailableError, match=f"s3://bucket/dir/k: .*after 4 attempts.*{step.status}"):
        WRITES[verb](bucket)
    assert len(server.requests) == bucket.counters.requests == 4
    assert len(clock.slept) == 3


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("step", IN_DOUBT, ids=str)
def test_a_write_without_an_answer_is_in_doubt(scripted: Scripted, verb: str, step: Step) -> None:
    if verb == "delete" and step == Reply(200):
        step = Reply(200, b"<Delete")  # a DeleteObjects answer cut short
    bucket, server = scripted(step, max_retries=1)
    with pytest.raises(OutcomeUnknownError, match=r"s3://bucket/dir/k: .*may or may not have happened"):
        WRITES[verb](bucket)
    assert len(server.requests) == bucket.counters.requests == 2


@pytest.mark.parametrize("verb", WRITES)
def test_no_connection_means_it_has_not_happened(clock: Clock, verb: str) -> None:
    bucket = client(f"http://127.0.0.1:{unused_port()}", clock)
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        WRITES[verb](bucket)
    assert bucket.counters.requests == 4


def test_an_unknown_host_means_it_has_not_happened(clock: Clock) -> None:
    bucket = client("http://no-such-host.invalid", clock)
    with pytest.raises(StoreUnavailableError, match="name is unknown"):
        bucket.put("k", b"")


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("later", [SLOW_DOWN, FORBIDDEN, NO_BUCKET], ids=["503", "403", "404"])
def test_no_later_failure_takes_the_doubt_back(scripted: Scripted, verb: str, later: Reply) -> None:
    bucket, _ = scripted(INTERNAL, later)
    with pytest.raises(OutcomeUnknownError, match="500 InternalError"):
        WRITES[verb](bucket)


@pytest.mark.parametrize("step", [*FAILED, *IN_DOUBT], ids=str)
def test_a_write_that_succeeds_at_last_has_happened(scripted: Scripted, step: Step) -> None:
    for verb in ("put", "put_if_absent", "put_if_match"):
        bucket, server = scripted(step, step, PUT)
        assert WRITES[verb](bucket) == ETAG
        assert bucket.counters.put == len(server.requests) == 3
        assert bucket.counters.bytes_out == 12
        assert {r.body for r in server.requests} == {b"data"}


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("step", [SLOW_DOWN, INTERNAL, GATEWAY, DROP, HANG], ids=str)
def test_reads_are_retried_and_never_in_doubt(scripted: Scripted, verb: str, step: Step) -> None:
    bucket, server = scripted(step, max_retries=1)
    with pytest.raises(StoreUnavailableError, match="after 2 attempts"):
        READS[verb](bucket)
    assert len(server.requests) == bucket.counters.requests == 2


def test_a_body_cut_short_is_read_again(scripted: Scripted) -> None:
    whole = b"x" * 10_000
    cut = Reply(200, whole, body(whole).headers, cut=5_000)
    bucket, _ = scripted(cut, body(whole))
    assert bucket.get("k").data == whole
    assert (bucket.counters.get, bucket.counters.bytes_in) == (2, 10_000)


# Definite answers


@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_definite_answers_are_not_retried(scripted: Scripted, verb: str) -> None:
    call = {**WRITES, **READS}[verb]
    answers: list[tuple[Reply, type[FirnError]]] = [
        (FORBIDDEN, AccessDeniedError),
        (error(401, "Unauthorized"), AccessDeniedError),
        (error(400, "ExpiredToken"), AccessDeniedError),
        (error(501, "NotImplemented"), UnsupportedError),
        (error(400, "InvalidRequest"), StoreUnavailableError),
    ]
    if verb != "head":  # its answers have no body that could tell more than the status
        answers.append((NO_BUCKET, NotFoundError))
    else:
        answers[2:] = [(error(400, "x"), StoreUnavailableError)]
    for answer, kind in answers:
        bucket, server = scripted(answer)
        with pytest.raises(kind, match="s3://bucket/dir/k") as caught:
            call(bucket)
        assert not isinstance(caught.value, ObjectNotFoundError)
        assert len(server.requests) == 1


@pytest.mark.parametrize("verb", ["get", "get_range", "head"])
def test_a_missing_object_is_not_retried(scripted: Scripted, verb: str) -> None:
    bucket, server = scripted(MISSING)
    with pytest.raises(ObjectNotFoundError):
        READS[verb](bucket)
    assert len(server.requests) == 1


def test_refusals_of_conditional_puts(scripted: Scripted) -> None:
    bucket, server = scripted(REFUSED)
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("k", b"")
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("k", b"", ETAG)
    bucket_without, _ = scripted(MISSING)
    with pytest.raises(ObjectChangedError):
        bucket_without.put_if_match("k", b"", ETAG)
    assert [r.headers.get("if-none-match") for r in server.requests] == ["*", None]
    assert [r.headers.get("if-match") for r in server.requests] == [None, ETAG]


def test_a_put_without_condition_is_never_refused_by_one(scripted: Scripted) -> None:
    bucket, _ = scripted(error(409, "InvalidBucketState"))
    with pytest.raises(StoreUnavailableError, match="InvalidBucketState"):
        bucket.put("k", b"")
    with pytest.raises(StoreUnavailableError, match="InvalidBucketState"):
        bucket.put_if_absent("k", b"")


@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_match"])
def test_a_race_that_s3_has_not_decided_is_asked_again(scripted: Scripted, verb: str) -> None:
    bucket, server = scripted(UNDECIDED, UNDECIDED, PUT)
    assert WRITES[verb](bucket) == ETAG
    assert len(server.requests) == 3
    bucket, _ = scripted(UNDECIDED, REFUSED)
    with pytest.raises((ObjectExistsError, ObjectChangedError)):
        WRITES[verb](bucket)
    bucket, _ = scripted(UNDECIDED)
    with pytest.raises(StoreUnavailableError, match="ConditionalRequestConflict"):
        WRITES[verb](bucket)


def test_some_keys_of_a_bulk_delete_fail(scripted: Scripted) -> None:
    partly = Reply(
        200,
        b"<DeleteResult><Deleted><Key>a</Key></Deleted>"
        b"<Error><Key>b</Key><Code>SlowDown</Code><Message>slow</Message></Error></DeleteResult>",
    )
    done = Reply(200, b"<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>")
    bucket, server = scripted(partly, done)
    bucket.delete_many(["a", "b"])
    assert len(server.requests) == bucket.counters.delete == 2
    denied = Reply(200, partly.body.replace(b"SlowDown", b"AccessDenied"))
    bucket, _ = scripted(denied)
    with pytest.raises(AccessDeniedError, match="s3://bucket/a and 1 more"):
        bucket.delete_many(["a", "b"])


# The echo of one's own success


def store_of(name: str, objects: dict[str, bytes]) -> Callable[[Request], Reply]:
    """A tiny S3: PUT with its conditions, and GET."""

    def answer(request: Request) -> Reply:
        key = request.target
        etag = f'"{hash(objects.get(key))}"' if key in objects else None
        if request.method == "GET":
            return body(objects[key], etag or "") if key in objects else MISSING
        assert request.method == "PUT", name
        if request.headers.get("if-none-match") == "*" and etag is not None:
            return REFUSED
        if request.headers.get("if-match", etag) != etag:
            return REFUSED
        objects[key] = request.body
        return Reply(200, headers={"ETag": f'"{hash(request.body)}"'})

    return answer


def lost_answer(store: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    def answer(request: Request) -> Reply:
        store(request)
        return INTERNAL

    return answer


def test_put_if_absent_reports_the_echo_as_a_refusal(scripted: Scripted) -> None:
    store = store_of("s", {})
    bucket, _ = scripted(lost_answer(store), default=store)
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("k", b"mine")


def test_create_knows_its_own_echo(scripted: Scripted) -> None:
    objects: dict[str, bytes] = {}
    store = store_of("s", objects)
    bucket, server = scripted(lost_answer(store), default=store)
    etag = create(bucket, "k", b"mine n-1", nonce="n-1")
    assert etag == bucket.get("k").info.etag
    assert objects["/bucket/k"] == b"mine n-1"
    assert [r.method for r in server.requests][:3] == ["PUT", "PUT", "GET"]
    with pytest.raises(ObjectExistsError, match="somebody else"):
        create(bucket, "k", b"yours n-2", nonce="n-2")


def test_create_believes_a_refusal_after_a_lost_answer_if_another_is_there(scripted: Scripted) -> None:
    objects: dict[str, bytes] = {"/bucket/k": b"theirs n-9"}
    store = store_of("s", objects)
    bucket, _ = scripted(lost_answer(store), default=store)
    with pytest.raises(ObjectExistsError, match="somebody else"):
        create(bucket, "k", b"mine n-1", nonce="n-1")
    assert objects["/bucket/k"] == b"theirs n-9"


@pytest.mark.parametrize("landed", [True, False])
def test_create_settles_retries_that_end_in_doubt(scripted: Scripted, landed: bool) -> None:
    store = store_of("s", {})
    first = lost_answer(store) if landed else INTERNAL
    bucket, _ = scripted(first, GATEWAY, default=store, max_retries=1)
    if landed:
        assert create(bucket, "k", b"mine n-1", nonce="n-1") == bucket.get("k").info.etag
    else:
        with pytest.raises(OutcomeUnknownError):
            create(bucket, "k", b"mine n-1", nonce="n-1")


def test_swap_knows_its_own_echo(scripted: Scripted) -> None:
    store = store_of("s", {"/bucket/k": b"old"})
    bucket, _ = scripted(store, lost_answer(store), default=store)
    old = bucket.get("k").info.etag
    etag = swap(bucket, "k", b"new n-1", old, nonce="n-1")
    assert etag == bucket.get("k").info.etag != old
    with pytest.raises(ObjectChangedError, match="somebody else"):
        swap(bucket, "k", b"other n-2", old, nonce="n-2")


def test_swap_stays_in_doubt_while_the_old_version_is_there(scripted: Scripted) -> None:
    store = store_of("s", {"/bucket/k": b"old"})
    bucket, _ = scripted(store, INTERNAL, DROP, default=store, max_retries=1)
    old = bucket.get("k").info.etag
    with pytest.raises(OutcomeUnknownError):
        swap(bucket, "k", b"new n-1", old, nonce="n-1")


@pytest.mark.parametrize("put", [create, swap])
def test_a_refusal_that_cannot_be_looked_into_is_no_refusal(scripted: Scripted, put: Any) -> None:
    bucket, _ = scripted(REFUSED, SLOW_DOWN)
    arguments = {"etag": ETAG} if put is swap else {}
    with pytest.raises(OutcomeUnknownError, match="reading it back failed"):
        put(bucket, "k", b"mine n-1", nonce="n-1", **arguments)


# Bounds


def test_waits_grow_with_full_jitter_up_to_a_limit() -> None:
    policy = RetryPolicy(first_wait=0.1, longest_wait=10)
    rng = random.Random(0)
    for failed, most in ((1, 0.1), (2, 0.2), (5, 1.6), (8, 10.0), (1000, 10.0)):
        waits = [policy.wait(failed, rng) for _ in range(200)]
        assert max(waits) <= most
        assert min(waits) < most * 0.1
        assert max(waits) > most * 0.9


def test_no_attempt_begins_after_retry_for(scripted: Scripted, clock: Clock) -> None:
    bucket, server = scripted(SLOW_DOWN, max_retries=1000, retry_timeout="30s")
    with pytest.raises(StoreUnavailableError):
        bucket.get("k")
    assert 20 < clock.monotonic() <= 30
    assert len(server.requests) == len(clock.slept) + 1


def test_retry_for_of_one_call(scripted: Scripted, clock: Clock) -> None:
    bucket, server = scripted(SLOW_DOWN, max_retries=1000)
    for call in (bucket.put, bucket.put_if_absent):
        with pytest.raises(StoreUnavailableError, match="at the first attempt"):
            call("k", b"", retry_for=0)
    with pytest.raises(StoreUnavailableError):
        bucket.put_if_match("k", b"", ETAG, retry_for=0)
    assert len(server.requests) == 3
    with pytest.raises(StoreUnavailableError):
        bucket.put("k", b"", retry_for=5)
    assert 0 < clock.monotonic() <= 5


def test_a_machine_without_credentials_is_told_soon(clock: Clock) -> None:
    def call() -> None:
        raise GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1ms - no route")

    retrier = Retrier(RetryPolicy(), clock, random.Random(7))
    with pytest.raises(AccessDeniedError, match="no credentials to write with"):
        retrier.run(call, verb="write", target="s3://bucket/k", write=True)
    assert len(clock.slept) == 2


# A listing that breaks off


def page(*keys: str, more: bool = False) -> Reply:
    contents = "".join(
        f"<Contents><Key>{k}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
        for k in keys
    )
    token = "<NextContinuationToken>next</NextContinuationToken>" if more else ""
    fields = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{contents}"
    text = f"<ListBucketResult>{fields}</ListBucketResult>"
    return Reply(200, text.encode(), {"Content-Type": "application/xml"})


def test_a_listing_goes_on_where_it_broke_off(scripted: Scripted) -> None:
    names = [f"p/{i:04}" for i in range(1500)]
    bucket, server = scripted(page(*names[:1000], more=True), DROP, SLOW_DOWN, page(*names[1000:]))
    listing = bucket.list("p/")
    assert [info.key for info in listing.objects] == names
    assert not listing.atomic
    assert bucket.counters.list == len(server.requests) == 4
    assert "continuation-token=next" in server.requests[1].target
    assert "start-after=p%2F0999" in server.requests[3].target


def test_a_listing_that_took_a_retry_before_its_page_is_not_called_atomic(scripted: Scripted) -> None:
    bucket, _ = scripted(SLOW_DOWN, page("p/1"))
    assert not bucket.list("p/").atomic


# Nothing secret is said


@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_no_credential_is_in_any_text(scripted: Scripted, clock: Clock, verb: str) -> None:
    leaky = (
        f"bad {KEY_ID} {SECRET} https://x.test/?X-Amz-Signature=abcd1234&amp;sig=abcd1234 Signature=abcd1234"
    )
    call = {**WRITES, **READS}[verb]
    for step in (error(403, "InvalidAccessKeyId", leaky), error(500, "Internal", leaky), DROP):
        bucket, _ = scripted(step, max_retries=0)
        with pytest.raises(FirnError) as caught:
            call(bucket)
        text = "".join(traceback.format_exception(caught.value)) + repr(bucket) + bucket.url + str(bucket)
        for secret in (SECRET, KEY_ID, "abcd1234"):
            assert secret not in text


def test_scrubbing() -> None:
    text = "PUT https://b.test/k?X-Amz-Credential=AKIA Authorization: AWS4-HMAC token=t0ken hunter22 done"
    clean = scrub(text, ["hunter22"])
    for secret in ("AKIA", "AWS4", "t0ken", "hunter22", "X-Amz"):
        assert secret not in clean
    assert clean.endswith("done")
