"""Each fault: what the store sees and what the client sees."""

from __future__ import annotations

import pytest

from firn.bucket import conditional
from firn.bucket.base import Bucket
from firn.errors import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firn.testing import (
    CRASH_AFTER,
    CRASH_BEFORE,
    FAILED,
    LOST_ACK,
    TRUNCATED,
    Call,
    Crashed,
    Fault,
    RandomFaults,
    Rule,
    Script,
    SimBucket,
    SimStore,
    delayed,
    duplicated,
    retried,
    slow,
    stalled,
)
from firn.testing.verbs import Verb


def _bucket(fault: Fault, store: SimStore | None = None, nth: int = 0) -> SimBucket:
    return (store or SimStore()).bucket(plan=Script(Rule(fault, nth=nth)))


def _land(bucket: SimBucket) -> None:
    bucket.store.time.settle()


@pytest.mark.parametrize(("fault", "left"), [(CRASH_BEFORE, {}), (CRASH_AFTER, {"a": b"1"})])
def test_a_crash_leaves_the_store_alone_before_or_after(fault: Fault, left: dict[str, bytes]) -> None:
    bucket = _bucket(fault)
    with pytest.raises(Crashed):
        bucket.put("a", b"1")
    assert bucket.store.contents() == left


def _put_then_tidy(bucket: Bucket) -> None:
    try:
        bucket.put("a", b"1")
    finally:
        bucket.delete("kept")


def test_finally_cannot_touch_the_store_after_a_crash() -> None:
    bucket = _bucket(CRASH_BEFORE, nth=1)
    bucket.put("kept", b"0")
    with pytest.raises(Crashed):
        _put_then_tidy(bucket)
    assert bucket.store.contents() == {"kept": b"0"}
    for attempt in (
        lambda: bucket.get("kept"),
        lambda: bucket.list(""),
        lambda: bucket.delete_many(["kept"]),
        lambda: bucket.clock.sleep(1),
    ):
        with pytest.raises(Crashed):
            attempt()


def test_a_crash_is_no_exception_that_a_handler_would_swallow() -> None:
    assert not issubclass(Crashed, Exception)


def test_a_crash_after_a_refused_put_shows_no_refusal() -> None:
    bucket = _bucket(CRASH_AFTER, nth=1)
    bucket.put("a", b"1")
    with pytest.raises(Crashed):
        bucket.put_if_absent("a", b"2")


def test_a_lost_acknowledgement_is_an_unknown_outcome_that_landed() -> None:
    bucket = _bucket(LOST_ACK)
    with pytest.raises(OutcomeUnknownError, match="sim://store/a"):
        bucket.put("a", b"1")
    assert bucket.store.contents() == {"a": b"1"}


def test_a_lost_refusal_is_an_unknown_outcome_too() -> None:
    bucket = _bucket(LOST_ACK, nth=1)
    bucket.put("a", b"1")
    with pytest.raises(OutcomeUnknownError):
        bucket.put_if_absent("a", b"2")
    assert bucket.store.contents() == {"a": b"1"}


def test_reads_lose_no_acknowledgement() -> None:
    bucket = _bucket(LOST_ACK)
    with pytest.raises(ObjectNotFoundError):
        bucket.get("a")
    with pytest.raises(OutcomeUnknownError):
        bucket.delete("a")


def test_a_retried_create_is_refused_by_its_own_success() -> None:
    bucket = _bucket(retried(2.0))
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("a", b"1")
    assert bucket.store.contents() == {"a": b"1"}
    assert (bucket.counters.put, bucket.counters.bytes_out) == (2, 2)
    assert conditional.create(_bucket(retried()), "b", b"nonce 7", nonce="7")


def test_a_retried_swap_is_refused_by_its_own_success() -> None:
    bucket = _bucket(retried(), nth=1)
    etag = bucket.put("a", b"1")
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("a", b"2", etag)
    assert bucket.store.contents() == {"a": b"2"}


def test_a_retried_put_lands_twice_and_is_answered() -> None:
    bucket = _bucket(retried(5.0))
    bucket.put("a", b"1")
    assert bucket.store.revision("a") == 2
    assert bucket.clock.monotonic() > 5.0


def test_no_retry_begins_after_retry_for() -> None:
    bucket = _bucket(retried(5.0))
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"1", retry_for=4.0)
    assert bucket.store.revision("a") == 1


def test_a_retry_that_fails_leaves_the_outcome_unknown() -> None:
    bucket = SimStore().bucket(plan=Script(Rule(retried()), Rule(FAILED, nth=1)))
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"1")
    assert bucket.store.contents() == {"a": b"1"}


def test_a_delayed_put_lands_after_the_client_gave_up() -> None:
    bucket = _bucket(delayed(60))
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"1")
    bucket.clock.sleep(59)
    assert bucket.store.contents() == {}
    bucket.clock.sleep(2)
    assert bucket.store.contents() == {"a": b"1"}


def test_a_delayed_put_lands_although_its_client_died() -> None:
    store = SimStore()
    bucket = store.bucket(plan=Script(Rule(delayed(60)), Rule(CRASH_BEFORE, nth=1)))
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"1")
    with pytest.raises(Crashed):
        bucket.get("a")
    store.time.settle()
    assert store.contents() == {"a": b"1"}


def test_a_delayed_create_is_judged_when_it_lands() -> None:
    bucket = _bucket(delayed(60))
    with pytest.raises(OutcomeUnknownError):
        bucket.put_if_absent("a", b"late")
    bucket.put_if_absent("a", b"early")
    _land(bucket)
    assert bucket.store.contents() == {"a": b"early"}


def test_a_delayed_swap_is_judged_when_it_lands() -> None:
    changed, kept = _bucket(delayed(60), nth=1), _bucket(delayed(60), nth=1)
    for bucket in (changed, kept):
        etag = bucket.put("a", b"1")
        with pytest.raises(OutcomeUnknownError):
            bucket.put_if_match("a", b"late", etag)
    changed.put("a", b"2")
    _land(changed)
    _land(kept)
    assert changed.store.contents() == {"a": b"2"}
    assert kept.store.contents() == {"a": b"late"}


def test_a_duplicated_put_lands_again_over_what_came_between() -> None:
    bucket = _bucket(duplicated(60))
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    _land(bucket)
    assert bucket.store.contents() == {"a": b"1"}


def test_a_duplicated_create_comes_back_only_if_the_name_is_free() -> None:
    freed, taken = _bucket(duplicated(60)), _bucket(duplicated(60))
    for bucket in (freed, taken):
        bucket.put_if_absent("a", b"1")
    freed.delete("a")
    taken.put("a", b"2")
    _land(freed)
    _land(taken)
    assert freed.store.contents() == {"a": b"1"}
    assert taken.store.contents() == {"a": b"2"}


def test_a_failed_request_did_nothing() -> None:
    bucket = _bucket(FAILED)
    with pytest.raises(StoreUnavailableError, match="sim://store/a"):
        bucket.put("a", b"1")
    assert bucket.store.contents() == {}
    bucket.put("a", b"1")
    assert bucket.store.contents() == {"a": b"1"}


def test_a_slow_put_lands_late_and_a_stalled_one_is_answered_late() -> None:
    late, stalling = _bucket(slow(30)), _bucket(stalled(30))
    for bucket in (late, stalling):
        bucket.put("a", b"1")
        assert bucket.clock.monotonic() >= 30
    assert late.head("a").modified_ms - stalling.head("a").modified_ms == 30_000


def test_a_stalled_refusal_is_still_a_refusal() -> None:
    bucket = _bucket(stalled(30), nth=1)
    bucket.put("a", b"1")
    with pytest.raises(ObjectExistsError):
        bucket.put_if_absent("a", b"2")


def test_a_truncated_read_is_half_a_body() -> None:
    bucket = SimStore().bucket(plan=Script(Rule(TRUNCATED, every=True)))
    bucket.put("a", b"12345678")
    blob = bucket.get("a")
    assert (blob.data, blob.info.size) == (b"1234", 8)
    assert bucket.get_range("a", 0, 4) == b"12"


def test_rules_match_client_verb_key_and_count_each_on_its_own() -> None:
    store = SimStore()
    rules = (
        Rule(FAILED, verb="put", key="log/*", nth=1),
        Rule(FAILED, client="b", verb=("get", "head")),
        Rule(FAILED, verb="delete", nth=1, every=True),
    )
    a, b = store.bucket("a", plan=Script(*rules)), store.bucket("b", plan=Script(*rules))
    a.put("log/1", b"")
    a.put("data/1", b"")
    assert not rules[0].fired
    with pytest.raises(StoreUnavailableError):
        a.put("log/2", b"")
    a.put("log/3", b"")
    assert rules[0].fired
    a.get("log/1")
    with pytest.raises(StoreUnavailableError):
        b.head("log/1")
    b.get("log/1")
    b.delete("log/1")
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            b.delete("log/3")


VERBS: tuple[Verb, ...] = ("get", "list", "put", "put_if_absent", "put_if_match", "delete")


def _drawn(faults: RandomFaults, n: int = 6000, client: str = "c") -> list[tuple[Verb, Fault | None]]:
    verbs = [VERBS[i % len(VERBS)] for i in range(n)]
    return [(verb, faults.decide(Call(i, 0, client, verb, "k"))) for i, verb in enumerate(verbs)]


def _everything(seed: int, *, delay_s: float = 300, stall_s: float = 10_800) -> RandomFaults:
    return RandomFaults(
        seed, crash=0.02, lost_ack=0.02, retried=0.02, delayed=0.02, duplicated=0.02, failed=0.02,
        slow=0.02, stalled=0.02, truncated=0.02, delay_s=delay_s, stall_s=stall_s,
    )  # fmt: skip


def test_random_faults_come_from_the_seed() -> None:
    first, same, other = (_drawn(_everything(seed)) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_random_faults_strike_where_they_apply_and_keep_their_bounds() -> None:
    drawn = [
        (verb, fault) for verb, fault in _drawn(_everything(1, delay_s=10, stall_s=1000)) if fault is not None
    ]
    assert {fault.kind for _, fault in drawn} == {
        "crash_before", "crash_after", "lost_ack", "retried", "delayed", "duplicated", "failed", "slow",
        "stalled", "truncated",
    }  # fmt: skip
    assert all(fault.applies(verb) for verb, fault in drawn)
    plain = [f.seconds for v, f in drawn if v == "put" and f.kind != "stalled"]
    assert 0 < max(plain) <= 10
    assert max(f.seconds for _, f in drawn if f.kind == "slow") <= 10
    assert max(f.seconds for v, f in drawn if v == "put_if_match" and f.kind == "delayed") > 10
    assert 10 < max(f.seconds for _, f in drawn if f.kind == "stalled") <= 1000


def test_spared_clients_suffer_nothing() -> None:
    assert all(f is None for _, f in _drawn(RandomFaults(1, failed=1.0, spare={"c"})))
    assert all(f is None for _, f in _drawn(RandomFaults(1, failed=1.0, spare={"c"}), client="c~2"))
    assert all(f is not None for _, f in _drawn(RandomFaults(1, failed=1.0, spare={"d"})))
