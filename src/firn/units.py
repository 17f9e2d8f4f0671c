"""Sizes, durations and times as people write them, turned into bytes, seconds and Unix milliseconds."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta, timezone

from firn.errors import InvalidInputError

Duration = float | str | timedelta
"""What `parse_duration` takes."""

Size = int | str
"""What `parse_size` takes."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)(b?)\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

_TIME = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?\s*",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_size(value: Size) -> int:
    """Bytes. Units are powers of 1024, with or without the `i`.

    Args:
        value: a number of bytes, or a string of a number and `B`, `KB`, `MB`, `GB`, `TB` or `PB`.

    Raises:
        InvalidInputError: anything else, and negative numbers.

    Example:
        >>> parse_size("128MB"), parse_size("1.5 GiB"), parse_size("512"), parse_size(4096)
        (134217728, 1610612736, 512, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= 0:
            return value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        number, unit, binary, _ = match.groups()
        if unit or not binary:
            return int(float(number) * 1024 ** _POWERS[unit.lower()])
    raise InvalidInputError(f"{value!r} is not a size; write bytes as an int, or a string like '128MB'")


def size_text(count: int) -> str:
    """Bytes as people read them, in powers of 1024.

    Example:
        >>> size_text(312), size_text(1536), size_text(parse_size("128MB"))
        ('312 B', '1.5 KB', '128.0 MB')
    """
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KB", "MB", "GB", "TB"):
        amount /= 1024
        if amount < 1024 or unit == "TB":
            break
    return f"{amount:,.1f} {unit}"


def parse_duration(value: str | float | timedelta) -> float:
    """Seconds.

    Args:
        value: seconds, a timedelta, or a string of numbers with units: `ms`, `s`, `m` (minutes), `h`,
            `d`, `w`, the largest first.

    Raises:
        InvalidInputError: anything else, and negative or infinite durations.

    Example:
        >>> parse_duration("10m"), parse_duration("1h30m"), parse_duration("7d"), parse_duration(2)
        (600.0, 5400.0, 604800.0, 2.0)
    """
    seconds: float | None = None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = _seconds(value.strip())
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        what = "a unit with it" if isinstance(value, str) else "seconds, a timedelta, or a string"
        raise InvalidInputError(f"{value!r} is not a duration; write {what}, like '10s', '10m' or '7d'")
    return seconds


def parse_duration_ms(value: str | float | timedelta) -> int:
    """Like `parse_duration`, in whole milliseconds.

    Example:
        >>> parse_duration_ms("100ms"), parse_duration_ms("0s")
        (100, 0)
    """
    return round(parse_duration(value) * 1000)


def parse_time(value: str | date) -> int:
    """Unix milliseconds, rounded down. What names no zone is UTC; a date is its first moment.

    Args:
        value: a datetime, a date, or an ISO 8601 string such as `2026-01-01`, `2026-01-01T12:30Z`
            or `2026-01-01 12:30:00.5+02:00`.

    Raises:
        InvalidInputError: anything else; a number too, since it could be seconds or milliseconds.

    Example:
        >>> parse_time("2026-01-01"), parse_time("2026-01-01T02:00+02:00"), parse_time(date(2026, 1, 1))
        (1767225600000, 1767225600000, 1767225600000)
    """
    moment: datetime | None = None
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    elif isinstance(value, str) and (match := _TIME.fullmatch(value)):
        moment = _moment(match)
    if moment is None or moment != moment:  # pandas' NaT is a datetime unequal to itself
        raise InvalidInputError(
            f"{value!r} is not a time; write a datetime, a date, or a string like '2026-01-01T12:30Z'"
        )
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _seconds(text: str) -> float | None:
    total, at, smallest = 0.0, 0, math.inf
    while at < len(text):
        match = _DURATION.match(text, at)
        if match is None:
            return None
        unit = _SECONDS[match[2].lower()]
        if unit >= smallest:
            return None
        total, at, smallest = total + float(match[1]) * unit, match.end(), unit
    return total if at else None


def _moment(match: re.Match[str]) -> datetime | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    zone = match[8] or "Z"
    offset = timedelta(0)
    if zone.upper() != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    try:
        return datetime(year, month, day, hour, minute, second, micros, timezone(offset))
    except ValueError:
        return None
