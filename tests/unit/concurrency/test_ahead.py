"""Reading ahead in a thread of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from firn.concurrency.prefetch import ahead


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "firn-ahead"]


def test_items_come_in_order_from_another_thread() -> None:
    makers = set()

    def items() -> Iterator[int]:
        for i in range(100):
            makers.add(threading.current_thread().name)
            yield i

    assert list(ahead(items())) == list(range(100))
    assert makers == {"firn-ahead"}
    assert threads() == []


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ConnectionError("gone")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ConnectionError, match="gone"):
        next(found)
    assert threads() == []


def test_it_is_never_more_than_the_depth_ahead() -> None:
    made = 0

    def items() -> Iterator[int]:
        nonlocal made
        for i in range(100):
            made += 1
            yield i

    found = ahead(items(), depth=3)
    for taken, _ in enumerate(found, 1):
        assert made <= taken + 3 + 2  # in the queue, in the hand that puts, and the one being taken


def test_closing_ends_the_thread() -> None:
    found = ahead(itertools.count())
    next(found)
    found.close()
    assert threads() == []
