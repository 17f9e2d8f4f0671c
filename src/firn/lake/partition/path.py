"""Partition directories: `date_month=2001-01/origin=DTW`, and back to values.

Frozen: this is a part of the format. Names and values keep ASCII letters, digits and `-_.`; the UTF-8 bytes of
all else are written as `%XX`. A value whose encoded form is longer than 200 bytes is written as
`~sha256-` and the first 32 hexadecimal digits of the hash of its UTF-8; its file's marker then holds the
value (`part`). Null is `__HIVE_DEFAULT_PARTITION__`, the empty string nothing at all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Mapping
from urllib.parse import quote, unquote

from firn.errors import InvalidInputError
from firn.journal.model import DataFile, Places

NULL = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 200
LONGEST_SEGMENT = 255
HASHED = "~sha256-"

Values = Mapping[str, str | None]
"""Partition values by field name, as text; None is null."""


def dir_of(values: Values) -> str:
    """The directory of a partition, without slashes at its ends; '' where there are no fields.

    >>> dir_of({"date_month": "2001-01", "origin": "a/b", "x": None})
    'date_month=2001-01/origin=a%2Fb/x=__HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(f"{_encoded(name)}={encode_value(value)}" for name, value in values.items())


def encode_value(value: str | None) -> str:
    """A value as it stands in a directory's name, behind the `=`."""
    if value is None:
        return NULL
    encoded = _encoded(value)
    if encoded == NULL:
        return "%5F" + encoded[1:]
    if len(encoded) > LONGEST:
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return HASHED + digest[:32]
    return encoded


def check_directory(directory: str) -> None:
    """Refuse a partition whose directory is longer than keys can be. `InvalidInputError`."""
    for segment in directory.split("/") if len(directory) > LONGEST_SEGMENT else ():
        if len(segment) > LONGEST_SEGMENT:
            name, _, value = segment.partition("=")
            raise InvalidInputError(
                f"the value {value[:40]}… of the partition field {name[:40]}… would need a directory with a name of "
                f"{len(segment)} bytes, and {LONGEST_SEGMENT} can be. Partition by truncate(…) or bucket(…), or by a "
                "column with a shorter name."
            )


def check_name(name: str) -> None:
    """Refuse a name of a partition field that leaves no room for any value. `InvalidInputError`."""
    most = LONGEST_SEGMENT - len(HASHED) - 32 - 1
    if (size := len(_encoded(name))) > most:
        raise InvalidInputError(
            f"the partition field {name[:40]!r}… has {size} bytes as directories are named, and {most} can be. "
            "Partition by a column with a shorter name."
        )


def is_told_by_path(values: Values) -> bool:
    """Whether the directory tells all of the values; if not, the file's marker has to."""
    return not any(encode_value(value).startswith(HASHED) for value in values.values())


def told_values(directory: str, values: Values) -> dict[str, str | None]:
    """The known ones of a partition's values. A hash in a directory's name isn't one: it stands for a value that only
    markers tell.

    >>> told_values("s=%7Esha256-", {"s": "~sha256-"})
    {'s': '~sha256-'}
    """
    hashes = {
        (_decoded(name), value)
        for name, _, value in (segment.partition("=") for segment in directory.split("/"))
        if _HASH.fullmatch(value)
    }
    return {name: value for name, value in values.items() if (name, value) not in hashes}


def without(directory: str, names: Container[str]) -> str:
    """A directory without the segments of some fields.

    >>> without("date_month=2001-01/origin=DTW", {"date_month"})
    'origin=DTW'
    """
    return "/".join(s for s in directory.split("/") if _decoded(s.partition("=")[0]) not in names)


def parse_dir(directory: str) -> dict[str, str | None]:
    """The values that a partition directory tells; empty for none.

    Values that the reference wrote as they are, unencoded, stay as they are, and so does a hash.

    >>> parse_dir("cust=test/d=2023-06-07")
    {'cust': 'test', 'd': '2023-06-07'}
    """
    values: dict[str, str | None] = {}
    for segment in directory.split("/"):
        name, equals, value = segment.partition("=")
        if equals:
            values[_decoded(name)] = None if value == NULL else _decoded(value)
    return values


def directory_of(file: DataFile, places: Places) -> str:
    """The partition directory of a data file. A registered file lies elsewhere: its marker tells the partition
    that it belongs to. Placed rows of logs know theirs."""
    if file.extra is not None and "directory" in file.extra:
        return str(file.extra["directory"])
    found = places.directory_of(file.path)
    return dir_of((file.extra or {}).get("part") or {}) if found is None else found


def values_of(file: DataFile, places: Places) -> dict[str, str | None]:
    """A file's partition values: from its marker where it has them, else from its path."""
    part = (file.extra or {}).get("part")
    return dict(part) if part else parse_dir(directory_of(file, places))


_HASH = re.compile(re.escape(HASHED) + "[0-9a-f]{32}")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")


def _encoded(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe="", errors="surrogatepass").replace("~", "%7E")


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    try:
        found = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
    # a % that no encoder of ours wrote is the reference's own
    return found if _encoded(found) == text or (found == NULL and text == "%5F" + NULL[1:]) else text
