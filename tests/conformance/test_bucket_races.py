"""Conditional puts under races: exactly one winner, and no update lost."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from firn.bucket import Bucket, LocalBucket
from firn.bucket.conditional import create, swap
from firn.errors import ObjectChangedError, ObjectExistsError
from stores.places import Place

pytestmark = pytest.mark.long

THREADS = 16


def together(*jobs: Callable[[], None]) -> None:
    """Run the jobs at once; the first error is raised here."""
    start = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            start.wait()
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def increment(bucket: Bucket, key: str, times: int) -> None:
    for _ in range(times):
        nonce = uuid.uuid4().hex
        while True:
            old = bucket.get(key)
            number = int(old.data.split()[0]) + 1
            try:
                swap(bucket, key, b"%d %s" % (number, nonce.encode()), old.info.etag, nonce=nonce)
                break
            except ObjectChangedError:
                continue


def claim(bucket: Bucket, keys: Sequence[str], name: str) -> list[str]:
    won = []
    for key in keys:
        try:
            create(bucket, key, name.encode(), nonce=name)
            won.append(key)
        except ObjectExistsError:
            pass
    return won


def test_one_of_many_creators_wins(place: Place) -> None:
    keys = [f"race/{n}" for n in range(10)]
    won: dict[str, list[str]] = {}

    def job(name: str) -> Callable[[], None]:
        bucket = place.open()
        return lambda: won.__setitem__(name, claim(bucket, keys, name))

    together(*(job(f"creator-{n:02}") for n in range(THREADS)))
    assert sorted(key for claimed in won.values() for key in claimed) == sorted(keys)
    bucket = place.open()
    for name, claimed in won.items():
        assert all(bucket.get(key).data == name.encode() for key in claimed)


def test_one_of_many_swappers_wins(place: Place) -> None:
    bucket = place.open()
    etag = bucket.put("k", b"start")
    winners: list[int] = []

    def job(n: int) -> Callable[[], None]:
        client = place.open()

        def swap_once() -> None:
            try:
                client.put_if_match("k", b"by %d" % n, etag)
                winners.append(n)
            except ObjectChangedError:
                pass

        return swap_once

    together(*(job(n) for n in range(THREADS)))
    assert len(winners) == 1
    assert bucket.get("k").data == b"by %d" % winners[0]


def test_no_increment_is_lost(place: Place) -> None:
    bucket = place.open()
    bucket.put("counter", b"0 start")
    clients = [place.open() for _ in range(THREADS)]
    together(*(lambda client=client: increment(client, "counter", 5) for client in clients))
    assert int(bucket.get("counter").data.split()[0]) == THREADS * 5


def test_a_reader_sees_whole_bodies_while_they_are_replaced(place: Place) -> None:
    bucket = place.open()
    size = 300_000
    bucket.put("k", b"a" * size)
    done = threading.Event()

    def write() -> None:
        try:
            for letter in b"bcdefghij":
                place.open().put("k", bytes([letter]) * size)
        finally:
            done.set()

    def read() -> None:
        client = place.open()
        while not done.is_set():
            blob = client.get("k")
            assert len(set(blob.data)) == 1
            assert len(blob.data) == blob.info.size == size

    together(write, read, read)
    assert bucket.get("k").data == b"j" * size


# Two processes on one directory


def _increment_in(path: str, times: int) -> None:
    increment(LocalBucket(path), "counter", times)


def _claim_in(path: str, name: str, answer: str) -> None:
    won = claim(LocalBucket(path), [f"race/{n}" for n in range(50)], name)
    Path(answer).write_text("\n".join(won))


def _processes(target: Callable[..., None], arguments: Sequence[tuple[object, ...]]) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=target, args=args) for args in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    for process in processes:
        process.close()


def test_processes_increment_one_counter_in_a_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    LocalBucket(path).put("counter", b"0 start")
    _processes(_increment_in, [(path, 60)] * 3)
    assert int(LocalBucket(path).get("counter").data.split()[0]) == 180


def test_processes_create_in_a_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    names = ["process-a", "process-b", "process-c"]
    _processes(_claim_in, [(path, name, str(tmp_path / name)) for name in names])
    won = {name: (tmp_path / name).read_text().split() for name in names}
    everything = [key for keys in won.values() for key in keys]
    assert sorted(everything) == sorted(f"race/{n}" for n in range(50))
    bucket = LocalBucket(path)
    for name, keys in won.items():
        assert all(bucket.get(key).data == name.encode() for key in keys)


def test_deleting_the_last_file_of_a_directory_races_with_adding_to_it(tmp_path: Path) -> None:
    path = str(tmp_path / "db")

    def come_and_go(n: int) -> None:
        bucket = LocalBucket(path)
        for _ in range(60):
            bucket.put(f"a/b/{n}", b"x")
            bucket.put_if_absent(f"a/c/{n}", b"x")
            bucket.delete_many([f"a/b/{n}", f"a/c/{n}"])
        bucket.put(f"a/b/{n}", b"last")

    together(*(lambda n=n: come_and_go(n) for n in range(6)))
    blobs = LocalBucket(path).get_many([f"a/b/{n}" for n in range(6)])
    assert [blob.data for blob in blobs if blob] == [b"last"] * 6
