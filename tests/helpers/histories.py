"""Histories for the checker, in few words: `r`, `c` and `a` are a read, a count and an append."""

from __future__ import annotations

from firn.testing.dependencies import Count, ListAppend, Observed, Read
from firn.testing.history import RecordedHistory


def r(key, *values):
    return Read(key, values)


def c(key, number):
    return Count(key, number)


def a(key, value):
    return ListAppend(key, value)


def observed(name, *operations, status="committed", at=(0, 1000)):
    """A transaction; unless told, all overlap, so that real time says nothing."""
    return Observed(name, operations, at[0], None if status == "unknown" else at[1], status)


def checked(*transactions, level="snapshot", **options):
    history = RecordedHistory()
    for transaction in transactions:
        history.add(transaction)
    return history.check(level, **options)


def kinds(verdict):
    return {anomaly.kind for anomaly in verdict.anomalies}
