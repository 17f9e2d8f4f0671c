from __future__ import annotations

import doctest
from datetime import date, datetime, timedelta, timezone

import pytest

import firn.units
from firn.errors import InvalidInputError
from firn.units import parse_duration, parse_duration_ms, parse_size, parse_time


def test_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(firn.units)
    assert result.attempted >= 4
    assert result.failed == 0


@pytest.mark.parametrize(
    ("value", "size"),
    [(0, 0), ("0", 0), ("1kb", 1024), ("1 KiB", 1024), ("64K", 65536), ("0.5MB", 524288), ("2tb", 2**41)],
)
def test_sizes(value: str | int, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize("value", [-1, True, 1.5, "", "MB", "-1MB", "1 XB", "1iB", "1MBs", None, "nanMB"])
def test_what_is_no_size_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a size"):
        parse_size(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0s", 0.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("2w", 1209600.0),
        ("1d 12h", 129600.0),
        (timedelta(minutes=1), 60.0),
        (0.5, 0.5),
    ],
)
def test_durations(value: str | float | timedelta, seconds: float) -> None:
    assert parse_duration(value) == seconds
    assert parse_duration_ms(value) == round(seconds * 1000)


@pytest.mark.parametrize(
    "value", ["", "10", "m", "1m1h", "1m2m", "-1s", "5 minutes", -1, float("nan"), float("inf"), True, None,
              timedelta(seconds=-1)]
)  # fmt: skip
def test_what_is_no_duration_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a duration"):
        parse_duration(value)  # type: ignore[arg-type]


def test_a_text_of_digits_is_told_that_a_unit_is_missing() -> None:
    with pytest.raises(InvalidInputError, match="'10' is not a duration; write a unit with it, like '10s'"):
        parse_duration("10")


def test_times_without_a_zone_are_utc() -> None:
    expected = 1767225600000
    assert parse_time(datetime(2026, 1, 1)) == expected
    assert parse_time(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == expected
    assert parse_time("2026-01-01T00:00") == expected
    assert parse_time("2026-01-01 00:00:00Z") == expected
    assert parse_time("2025-12-31T19:00:00-0500") == expected
    assert parse_time(date(2026, 1, 1)) == expected


def test_times_are_rounded_down_to_milliseconds() -> None:
    assert parse_time("2026-01-01T00:00:00.0019999") == 1767225600001
    assert parse_time(datetime(2026, 1, 1, 0, 0, 0, 1999)) == 1767225600001
    assert parse_time("1969-12-31T23:59:59.9995Z") == -1


@pytest.mark.parametrize(
    "value", ["", "yesterday", "2026", "2026-13-01", "2026-01-01T25:00", "2026-01-01Z", 1767225600000, None]
)
def test_what_is_no_time_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a time"):
        parse_time(value)  # type: ignore[arg-type]
