"""The properties of a keyed table, read once into numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from firn.errors import InvalidInputError
from firn.keyed.sst.encoding import Compression
from firn.units import parse_duration, parse_size

POLLS = 3
"""How often within `poll_max` a writer looks whether another has come, unless it is told."""

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
        settings = KeyedSettings(**{name: read(name, given[name]) for name, (_, read) in _PROPERTIES.items()})
        if settings.l0_min_age < _AGE_IN_POLLS * settings.poll_max:
            raise InvalidInputError(
                f"table property l0_min_age is {settings.l0_min_age:g} s; it must be at least {_AGE_IN_POLLS} times "
                f"poll_max ({settings.poll_max:g} s), or sweep could take files that a stalled writer counts on."
            )
        return settings


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


def _one_of(*allowed: Any) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> Any:
        if value not in allowed:
            shown = " or ".join(map(repr, allowed))
            raise InvalidInputError(f"table property {name} is {value!r}; it can be {shown}.")
        return None if value == "none" else value

    return read


def _url(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.startswith("dynamodb://")):
        raise InvalidInputError(
            f"table property {name} is {value!r}; it names an item of a DynamoDB table, like 'dynamodb://table/item'."
        )
    return value


_PROPERTIES: Mapping[str, tuple[Any, Callable[[str, Any], Any]]] = {
    "flush_ms": (100, _whole),
    "memtable_size": ("64MB", _size),
    "block_cache": ("128MB", _size),
    "compression": ("zstd", _one_of("zstd", "lz4", "none")),
    "block_size": ("128KB", _size),
    "bloom_bits": (10, _whole),
    "sst_size": ("32MB", _size),
    "compaction": ("tiered", _one_of("tiered", "leveled")),
    "strict": (False, _one_of(False, True)),
    "poll_max": ("30s", _seconds),
    "l0_min_age": ("10m", _seconds),
    "max_l0": (1024, _whole),
    "max_l0_size": ("1GB", _size),
    "max_unflushed": ("256MB", _size),
    "pointer_url": (None, _url),
}

KEYED_PROPERTIES: Mapping[str, Any] = {name: default for name, (default, _) in _PROPERTIES.items()}
"""Properties of keyed tables with their defaults (None: not set)."""
