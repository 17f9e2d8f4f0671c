"""The scheduler: determinism, interleaving, time, crashes, failures."""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Callable

import pytest

from firn.errors import InvalidInputError, ObjectExistsError, OutcomeUnknownError, StoreUnavailableError
from firn.testing import (
    CRASH_AFTER,
    CRASH_BEFORE,
    FAILED,
    Call,
    Crashed,
    RandomFaults,
    Replay,
    Rule,
    Script,
    SimClient,
    SimStore,
    SimulationFailure,
    World,
    delayed,
    retried,
    stalled,
)
from firn.testing.store import START_MS


def _busy(client: SimClient) -> None:
    for i in range(20):
        _write_and_tidy(client, i)


def _write_and_tidy(client: SimClient, i: int) -> None:
    try:
        client.bucket.put(f"{client.name}/{i}", uuid.uuid4().bytes)
        client.bucket.delete_many([f"{client.name}/{j}" for j in range(max(0, i - 3), i)])
        client.bucket.list("")
    except (OutcomeUnknownError, StoreUnavailableError):
        client.clock.sleep(client.random.random())


def _busy_world(seed: int) -> World:
    faults = RandomFaults(
        seed, crash=0.001, lost_ack=0.02, delayed=0.02, duplicated=0.02, failed=0.02, stalled=0.01
    )
    world = World(seed, store=SimStore(page_size=2), faults=faults)
    for name in ("a", "b", "c"):
        world.spawn(name, _busy, restarts=3)
    world.run()
    return world


def test_the_same_seed_makes_the_same_trace_and_others_do_not() -> None:
    first, same, other = _busy_world(5), _busy_world(5), _busy_world(6)
    assert first.trace == same.trace
    assert first.store.contents() == same.store.contents()
    assert first.trace != other.trace
    assert {call.fault.kind for call in first.trace if call.fault} >= {"lost_ack", "failed"}


def test_random_names_come_from_the_seed_and_only_inside() -> None:
    def names(client: SimClient) -> tuple[object, ...]:
        return uuid.uuid4(), secrets.token_hex(4), client.random.random()

    def drawn(seed: int) -> object:
        world = World(seed)
        client = world.spawn("a", names)
        world.run()
        return client.result

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert uuid.uuid4() != uuid.uuid4()


def _calls(n: int) -> Callable[[SimClient], None]:
    def program(client: SimClient) -> None:
        for i in range(n):
            client.bucket.put(f"{client.name}{i}", b"")

    return program


def _order(seed: int) -> str:
    world = World(seed)
    for name in ("a", "b"):
        world.spawn(name, _calls(3))
    world.run()
    return "".join(call.client for call in world.trace)


def test_seeds_reach_every_order_of_two_small_clients() -> None:
    assert len({_order(seed) for seed in range(500)}) == 20


def test_a_list_of_one_key_pages_is_interleaved_with_deletes() -> None:
    def lister(client: SimClient) -> tuple[str, ...]:
        listing = client.bucket.list("")
        assert not listing.atomic
        return tuple(info.key for info in listing.objects)

    def mover(client: SimClient) -> None:
        # At each moment at least one of a and z is there; a LIST in pages may see neither or both.
        client.bucket.put("a", b"")
        client.bucket.delete("z")

    seen = set()
    for seed in range(200):
        world = World(seed, store=SimStore(page_size=1))
        world.observer().put_many([("m", b""), ("n", b""), ("z", b"")])
        listing = world.spawn("lister", lister)
        world.spawn("mover", mover)
        world.run()
        seen.add(listing.result)
    assert seen == {("m", "n", "z"), ("a", "m", "n", "z"), ("a", "m", "n"), ("m", "n")}


def test_requests_in_flight_together_arrive_in_any_order() -> None:
    orders = set()
    for seed in range(50):
        world = World(seed)
        world.spawn("a", lambda client: client.bucket.put_many([("x", b""), ("y", b""), ("z", b"")]))
        world.run()
        orders.add("".join(call.key for call in world.trace))
    assert len(orders) == 6


def test_clocks_are_skewed_and_sleep_takes_virtual_time() -> None:
    def program(client: SimClient) -> tuple[int, float]:
        wall, start = client.clock.now_ms(), client.clock.monotonic()
        client.clock.sleep(7200)
        assert client.clock.now_ms() - wall >= 7_200_000
        return wall, client.clock.monotonic() - start

    world = World(1, latency_ms=1)
    early = world.spawn("early", program, skew_ms=-3_600_000)
    late = world.spawn("late", program, skew_ms=3_600_000)
    later = world.spawn("later", program, after=100.0)
    world.run()
    assert early.result == (START_MS - 3_600_000, 7200.0)
    assert late.result == (START_MS + 3_600_000, 7200.0)
    assert later.result == (START_MS + 100_000, 7200.0)
    assert early.clock.monotonic() != late.clock.monotonic()


def test_a_stalled_client_wakes_after_others_went_on() -> None:
    def program(client: SimClient) -> None:
        client.bucket.put(client.name, b"")
        client.bucket.put(f"{client.name} again", b"")

    world = World(3, faults=Script(Rule(stalled(600), client="a")))
    world.spawn("a", program)
    world.spawn("b", program)
    world.run()
    assert [call.key for call in world.trace][-1] == "a again"
    head = world.observer().head
    assert head("a again").modified_ms - head("b again").modified_ms > 590_000


def _wakes_early(seed: int, wake: str) -> bool:
    world = World(seed, wake="any" if wake == "any" else "idle")

    def sleeper(client: SimClient) -> None:
        client.clock.sleep(3600)
        client.bucket.put("woken", b"")

    world.spawn("sleeper", sleeper)
    world.spawn("busy", _calls(10))
    world.run()
    return world.trace[-1].key != "woken"


def test_a_sleeper_may_wake_before_others_go_on_only_if_asked_for() -> None:
    assert not any(_wakes_early(seed, "idle") for seed in range(50))
    assert any(_wakes_early(seed, "any") for seed in range(50))


def test_a_crashed_client_is_gone_with_its_finally_and_starts_anew() -> None:
    def program(client: SimClient) -> str:
        try:
            client.bucket.put(client.name, b"")
            return client.bucket.put("end", b"")
        finally:
            client.bucket.delete(client.name)

    world = World(1, faults=Script(Rule(CRASH_AFTER), Rule(CRASH_BEFORE, client="a~1", nth=1)))
    first = world.spawn("a", program, restarts=5)
    world.run()
    assert first.crashed
    assert first.done
    assert first.result is None
    assert [client.name for client in world.clients] == ["a", "a~1", "a~2"]
    assert [client.crashed for client in world.clients] == [True, True, False]
    assert world.store.keys() == ["a", "a~1", "end"]


def test_a_late_put_lands_before_the_checks_although_all_clients_ended() -> None:
    def program(client: SimClient) -> None:
        with pytest.raises(OutcomeUnknownError):
            client.bucket.put("a", b"late")

    world = World(1, faults=Script(Rule(delayed(3600))))
    world.spawn("a", program)
    landed = []
    world.check(lambda: landed.append(world.store.contents()))
    world.run()
    assert landed == [{"a": b"late"}]
    assert world.trace[-1].outcome == "late landing of call 0"


def test_others_come_between_a_put_and_its_retry() -> None:
    def program(client: SimClient) -> str:
        try:
            client.bucket.put_if_absent("a", client.name.encode())
        except ObjectExistsError:
            return "refused"
        return "created"

    def thief(client: SimClient) -> None:
        client.bucket.delete("a")

    outcomes = set()
    for seed in range(100):
        world = World(seed, faults=Script(Rule(retried(), client="a")))
        creator = world.spawn("a", program)
        world.spawn("thief", thief)
        world.run()
        outcomes.add((creator.result, "a" in world.store))
    assert outcomes == {("refused", True), ("created", True), ("refused", False)}


def test_an_error_of_a_client_fails_with_the_seed_and_the_last_calls() -> None:
    def program(client: SimClient) -> None:
        client.bucket.put("somewhere", b"")
        raise ValueError("out of snow")

    world = World(4711)
    world.spawn("a", program)
    world.spawn("b", _calls(3))
    with pytest.raises(SimulationFailure, match="client a raised ValueError: out of snow") as failure:
        world.run()
    assert "seed 4711" in str(failure.value)
    assert "put somewhere" in str(failure.value)
    assert failure.value.seed == 4711
    assert failure.value.trace == tuple(world.trace)
    assert isinstance(failure.value.__cause__, ValueError)


def test_an_expected_error_ends_a_client_quietly() -> None:
    world = World(1, faults=Script(Rule(FAILED)))
    client = world.spawn("a", _calls(1), expected=(StoreUnavailableError,))
    world.run()
    assert isinstance(client.error, StoreUnavailableError)
    assert not client.crashed


def test_an_invariant_fails_at_the_call_that_broke_it() -> None:
    def program(client: SimClient) -> None:
        client.bucket.put("a", b"")
        client.bucket.put("b", b"")
        client.bucket.put("c", b"")

    world = World(1)
    world.spawn("a", program)

    @world.invariant
    def no_b() -> None:
        assert [o.key for o in world.observer().list("b").objects] == []

    with pytest.raises(SimulationFailure, match="invariant no_b"):
        world.run()
    assert [call.key for call in world.trace] == ["a", "b"]


def test_an_invariant_watches_late_landings_too() -> None:
    def program(client: SimClient) -> None:
        with pytest.raises(OutcomeUnknownError):
            client.bucket.put("b", b"")

    world = World(1, faults=Script(Rule(delayed(60))))
    world.spawn("a", program)

    @world.invariant
    def no_b() -> None:
        assert "b" not in world.store

    with pytest.raises(SimulationFailure, match="no_b"):
        world.run()


def test_a_failed_check_names_itself() -> None:
    world = World(9)
    world.spawn("a", _calls(1))

    @world.check
    def nothing_there() -> None:
        assert len(world.store) == 0

    with pytest.raises(SimulationFailure, match=r"(?s)check nothing_there.*seed 9"):
        world.run()


def test_a_livelock_is_found() -> None:
    def program(client: SimClient) -> None:
        while True:
            client.bucket.list("")

    world = World(1, max_steps=100)
    client = world.spawn("a", program)
    with pytest.raises(SimulationFailure, match="no end after 100 steps"):
        world.run()
    assert client.crashed
    assert len(world.trace) == 100


def test_sleeping_for_ever_is_a_deadlock() -> None:
    world = World(1)
    world.spawn("a", lambda client: client.clock.sleep(float("inf")))
    with pytest.raises(SimulationFailure, match="deadlock: a sleep"):
        world.run()


def test_a_failure_elsewhere_kills_the_others_at_once() -> None:
    gone = []

    def witness(client: SimClient) -> None:
        try:
            for i in range(1000):
                client.bucket.put(f"w{i}", b"")
        except BaseException as end:
            gone.append(type(end))
            client.bucket.put("last words", b"")

    def failing(client: SimClient) -> None:
        client.bucket.list("")
        raise ValueError

    world = World(1)
    world.spawn("witness", witness, restarts=2)
    world.spawn("failing", failing)
    with pytest.raises(SimulationFailure):
        world.run()
    assert gone == [Crashed]
    assert "last words" not in world.store
    assert [client.name for client in world.clients] == ["witness", "failing"]


def test_a_client_used_by_another_or_by_a_thread_is_refused() -> None:
    world = World(1)
    other = world.spawn("other", _calls(1))
    refused = []

    def program(client: SimClient) -> None:
        with pytest.raises(InvalidInputError, match="other was used outside"):
            other.bucket.get("a")

        def in_thread() -> None:
            try:
                client.bucket.get("a")
            except InvalidInputError as error:
                refused.append(error)

        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    world.spawn("a", program)
    world.run()
    assert len(refused) == 1
    with pytest.raises(InvalidInputError):
        other.bucket.get("a")


def test_clients_may_spawn_clients_and_a_world_may_run_again() -> None:
    world = World(1)

    def parent(client: SimClient) -> None:
        client.bucket.put("parent", b"")
        world.spawn("child", _calls(1))

    world.spawn("parent", parent)
    world.run()
    assert world.store.keys() == ["child0", "parent"]
    world.spawn("second", _calls(1))
    world.run()
    assert world.store.keys() == ["child0", "parent", "second0"]


def test_running_inside_a_run_is_refused_and_so_is_spawning_in_a_check() -> None:
    world = World(1)

    def program(_client: SimClient) -> None:
        with pytest.raises(InvalidInputError, match="running already"):
            world.run()

    world.spawn("a", program)
    world.check(lambda: world.spawn("late", program))
    with pytest.raises(SimulationFailure, match="spawn before run"):
        world.run()


def test_a_client_may_use_two_stores_of_one_time() -> None:
    log = SimStore(url="sim://log", start_ms=0)
    world = World(1)

    def program(client: SimClient) -> None:
        client.bucket.put("data", b"")
        client.clock.sleep(10)
        world.bucket_for(client, log).put("log", b"")

    world.spawn("a", program)
    world.run()
    assert world.store.keys() == ["data"]
    assert log.keys() == ["log"]
    assert log.stat("log").modified_ms - world.store.stat("data").modified_ms >= 10_000


def test_calls_print_what_happened() -> None:
    call = Call(3, 1000, "a", "put", "k", stalled(2), "object_exists")
    assert str(call) == "     3 1000 ms  a            put k  [stalled 2 s]  -> object_exists"


def test_a_replay_makes_its_choices() -> None:
    world = World(Replay([1, 1]))
    for name in ("a", "b"):
        world.spawn(name, _calls(2))
    world.run()
    assert "".join(call.client for call in world.trace) == "baab"


def test_a_replay_of_another_program_is_noticed() -> None:
    world = World(Replay([1, 5]))
    for name in ("a", "b"):
        world.spawn(name, _calls(2))
    with pytest.raises(SimulationFailure, match="something else"):
        world.run()
