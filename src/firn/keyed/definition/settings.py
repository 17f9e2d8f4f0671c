"""The properties of a keyed table, read once into numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from firn.errors import InvalidInputError
from firn.keyed.sst.encoding import Compression
from firn.units import parse_duration, parse_size

KEYED_PROPERTIES: Mapping[str, Any] = {
    "flush_ms": 100,
    "memtable_size": "64MB",
    "block_cache": "128MB",
    "compression": "zstd",
    "block_size": "128KB",
    "bloom_bits": 10,
    "sst_size": "32MB",
    "compaction": "tiered",
    "strict": False,
    "poll_max": "30s",
    "l0_min_age": "10m",
    "max_l0": 1024,
    "max_l0_size": "1GB",
    "max_unflushed": "256MB",
    "pointer_url": None,
}
"""Properties of keyed tables with their defaults (None: not set)."""

POLLS = 3
"""How often within `poll_max` a writer looks whether another has come, unless it is told."""

_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "compression": ("zstd", "lz4", "none"),
    "compaction": ("tiered", "leveled"),
    "strict": (False, True),
}
N = TypeVar("N", int, float)

_TOO_MUCH = 1 << 62  # JSON's numbers here have 64 bits

_AGE_IN_POLLS = 10  # rule 19: l0_min_age ≥ 10 × poll_max


@dataclass(frozen=True)
class KeyedSettings:
    """Sizes in bytes, times in seconds but `flush_ms`.

    `flush_ms` is how long an entry waits for others before it is flushed. At `max_unflushed`, `max_l0` and
    `max_l0_size` puts wait: bytes that no bucket has yet, L0 objects that no compaction has taken up, and
    their bytes. From half of each on, puts are slowed down.
    """

    flush_ms: int = 100
    memtable_size: int = 64 << 20
    block_cache: int = 128 << 20
    compression: Compression = "zstd"
    block_size: int = 128 << 10
    bloom_bits: int = 10
    sst_size: int = 32 << 20
    compaction: Literal["tiered", "leveled"] = "tiered"
    strict: bool = False
    poll_max: float = 30.0
    l0_min_age: float = 600.0
    max_l0: int = 1024
    max_l0_size: int = 1 << 30
    max_unflushed: int = 256 << 20
    pointer_url: str | None = None

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> KeyedSettings:
        """Read a table's properties.

        Raises:
            InvalidInputError: an unknown name, or a value that can't be; the message names it.

        Example:
            >>> KeyedSettings.from_properties({"memtable_size": "1MB"}).memtable_size
            1048576
        """
        if unknown := sorted(properties.keys() - KEYED_PROPERTIES.keys()):
            raise InvalidInputError(
                f"unknown table property {unknown[0]!r} for kind='keyed'; there are: "
                f"{', '.join(sorted(KEYED_PROPERTIES))}."
            )
        given = {**KEYED_PROPERTIES, **{k: v for k, v in properties.items() if v is not None}}
        for name, value in given.items():
            if value is not None and type(value) not in (bool, int, float, str):
                raise InvalidInputError(
                    f"table property {name} is {value!r}; give it as text, or as a plain number."
                )
        for name, allowed in _CHOICES.items():
            if given[name] not in allowed:
                shown = " or ".join(map(repr, allowed))
                raise InvalidInputError(f"table property {name} is {given[name]!r}; it can be {shown}.")
        settings = KeyedSettings(**{name: _READ.get(name, _as_is)(name, given[name]) for name in given})
        if settings.l0_min_age < _AGE_IN_POLLS * settings.poll_max:
            raise InvalidInputError(
                f"table property l0_min_age is {settings.l0_min_age:g} s; it must be at least {_AGE_IN_POLLS} times "
                f"poll_max ({settings.poll_max:g} s), or sweep could take files that a stalled writer counts on."
            )
        return settings


def _as_is(name: str, value: Any) -> Any:
    return value


def _size(name: str, value: Any) -> int:
    return _positive(name, parse_size(value))


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdecimal():
        raise InvalidInputError(f"table property {name} is {value!r}; it must be a positive whole number.")
    return _positive(name, int(value))


def _seconds(name: str, value: Any) -> float:
    return _positive(name, parse_duration(value))


def _positive(name: str, value: N) -> N:
    if not 0 < value < _TOO_MUCH:
        raise InvalidInputError(
            f"table property {name} is {value!r}; it must be more than 0, and below 2^62."
        )
    return value


def _codec(name: str, value: str) -> str | None:
    return None if value == "none" else value


def _url(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.startswith("dynamodb://")):
        raise InvalidInputError(
            f"table property {name} is {value!r}; it names an item of a DynamoDB table, like 'dynamodb://table/item'."
        )
    return value


_READ: Mapping[str, Callable[[str, Any], Any]] = {
    "flush_ms": _whole,
    "memtable_size": _size,
    "block_cache": _size,
    "compression": _codec,
    "block_size": _size,
    "bloom_bits": _whole,
    "sst_size": _size,
    "poll_max": _seconds,
    "l0_min_age": _seconds,
    "max_l0": _whole,
    "max_l0_size": _size,
    "max_unflushed": _size,
    "pointer_url": _url,
}
