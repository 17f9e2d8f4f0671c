"""Ids, fields, tables and databases as parts of object names. Frozen: docs/format/records.md has the rules.

A part never leaves its directory, holds no `___`, and tells what it was made of, unless it was so long that
its end became a hash.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final
from urllib.parse import quote, unquote

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError

SEPARATOR: Final = "___"
"""Between the parts of an index entry's name. Frozen."""

ID_BYTES: Final = 160
"""Bytes of an id in a name: with its table's and database's, and a sequence number, it is one segment. Frozen."""

OWNER_BYTES: Final = 32
"""Bytes of a table's or a database's name in an index entry's. Frozen."""

FIELD_BYTES: Final = 200
"""Bytes of a field's name in a path. Frozen."""

HASHED: Final = "~"
"""Before the digits of a hash; a part has none otherwise. Frozen."""

_LONG_HASH: Final = 32
_SHORT_HASH: Final = 8
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")
# An underscore beside another or at an end could be taken for a part of the separator; a dot at an end could make
# `..`, a hidden file, or a segment that Azure cuts.
# Whether an underscore or a dot at the end of a prefix is escaped depends on what follows it.
_UNSURE = re.compile(r"[_.]+$")
_AMBIGUOUS = re.compile(r"(?<=_)_|_(?=_)|^_|_$|^\.|\.$")
_ESCAPED = {"_": "%5F", ".": "%2E"}


def id_part(id: str) -> str:
    """An id as a part of the names of its row, its lock and its index entries.

    >>> id_part("ada@example.com"), id_part("../a"), id_part("a___b")
    ('ada%40example.com', '%2E.%2Fa', 'a%5F%5F%5Fb')
    """
    return _part(check_id(id), ID_BYTES, _LONG_HASH)


def field_part(field: str) -> str:
    """A field, or a dotted path to one, as the directory of its index."""
    return _part(field, FIELD_BYTES, _LONG_HASH)


def owner_part(name: str) -> str:
    """A database's or a table's name in an index entry's. Its own directory has it in full.

    >>> owner_part("people"), owner_part("measurements-of-all-stations-of-2026")
    ('people', 'measurements-of-all-sta~ff34c168')
    """
    return _part(name, OWNER_BYTES, _SHORT_HASH)


def part_text(part: str) -> str | None:
    """The text that a part was made of; None if it ends in a hash.

    >>> part_text("a%5F%5F%5Fb")
    'a___b'
    """
    return None if HASHED in part else unquote(part, errors="strict")


def name_prefix(text: str) -> str:
    """The beginning that the parts of all ids share that begin with a text.

    >>> name_prefix("user/ada_"), name_prefix("_x")
    ('user%2Fada', '')
    """
    # An underscore at the beginning, or beside another, is escaped: what is behind one isn't asked for.
    plain = re.split(r"^[_.]|__", text, maxsplit=1)[0]
    while len(name := quoted(plain)) > ID_BYTES // 2:
        plain = plain[: len(plain) // 2]
    return _UNSURE.sub("", name)


def check_id(id: str) -> str:
    """The id itself, or `InvalidInputError` if no row can have it: it must be text of at least a character."""
    if not isinstance(id, str):
        raise InvalidInputError(f"{shown(id)} can't be an id: ids are strings. Write a number as text.")
    if not id:
        raise InvalidInputError("an id has at least one character; '' has none.")
    check_unicode(id, "the id")
    return id


def check_unicode(text: str, what: str) -> None:
    """Refuse halves of surrogate pairs, which have no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{what} {text[:60]!r} isn't valid Unicode: it has half a surrogate pair in it."
        ) from None


def quoted(text: str) -> str:
    """`text` with all but ASCII letters, digits and `-_.` as the `%XX` of their UTF-8.

    >>> quoted("a/b ~é")
    'a%2Fb%20%7E%C3%A9'
    """
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe="").replace("~", "%7E")


def edges(encoded: str) -> str:
    """A quoted text without dots at its ends."""
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    return encoded[:-1] + "%2E" if encoded.endswith(".") else encoded


def head(text: str, longest: int) -> str:
    """As many first characters of `text` as are at most `longest` bytes when they are quoted."""
    size = 0
    for at, character in enumerate(text):
        size += len(quoted(character))
        if size > longest:
            return text[:at]
    return text


def digest(data: bytes, digits: int) -> str:
    """The first hexadecimal digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:digits]


def _part(text: str, longest: int, digits: int) -> str:
    part = _escaped(text)
    if len(part) <= longest:
        return part
    room = longest - digits - len(HASHED)
    kept = head(text, room)
    # Escapes for underscores and dots may need more room than quoting does.
    while len(part := _escaped(kept)) > room:
        kept = kept[:-1]
    return f"{part}{HASHED}{digest(text.encode(), digits)}"


def _escaped(text: str) -> str:
    return _AMBIGUOUS.sub(lambda found: _ESCAPED[found.group()], quoted(text))


def shown_id(id: Any) -> str:
    """An id for a message, cut where it is long."""
    text = repr(id)
    return text if len(text) <= 80 else text[:80] + "…"
