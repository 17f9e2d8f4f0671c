"""Any object of a database as text or JSON, for a person who wants to know what is in it.

Nothing is validated: what can be decoded is shown, and beside it what can't, with the reason. The formats are
in docs/format/.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import orjson

from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.bucket.urls import parse_url, split_url
from firn.errors import ObjectNotFoundError
from firn.inspect.dump.decode import decode_object
from firn.inspect.dump.decoded import Decoded

WHOLE_UP_TO = 64 * 2**20
"""Larger objects are read by their ends: of a Parquet file the footer, of others the beginning."""


@dataclass(frozen=True)
class Dump:
    """One object, or a directory's listing. `problems` are decode errors; the rest is what was readable."""

    url: str
    kind: str
    bytes: int
    modified: datetime | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it, as what JSON holds."""
        return {
            "url": self.url,
            "kind": self.kind,
            "bytes": self.bytes,
            "modified": self.modified,
            "fields": dict(self.fields),
            "sections": {title: list(entries) for title, entries in self.sections.items()},
            "problems": list(self.problems),
        }

    def to_text(self, *, limit: int | None = None) -> str:
        """Lines for a person, at most `limit` of each section."""
        modified = f", {self.modified:%Y-%m-%d %H:%M:%S} UTC" if self.modified is not None else ""
        lines = [self.url, f"{self.kind}, {self.bytes:,} bytes{modified}"]
        lines += [f"! {problem}" for problem in self.problems]
        width = max((len(name) for name in self.fields), default=0)
        if self.fields:
            lines.append("")
            lines += [f"  {name:<{width}}  {_text(value)}" for name, value in self.fields.items()]
        for title, entries in self.sections.items():
            lines += ["", f"{title} ({len(entries):,})"]
            chosen = entries if limit is None else entries[:limit]
            lines += [f"  {_text(entry)}" for entry in chosen]
            if len(chosen) < len(entries):
                lines.append(f"  … and {len(entries) - len(chosen):,} more")
        return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "error" in value:
        return f"! line {value.get('line')}: {value['error']}: {value.get('text', '')}"
    return orjson.dumps(value, default=str).decode()


def dump_url(url: str, *, options: Mapping[str, Any] | None = None) -> Dump:
    """Dump the object at a URL; for a directory, list its objects.

    Args:
        url: of an object, or of a directory, table or database.
        options: the store's, as in `firn.connect`.

    Raises:
        ObjectNotFoundError: nothing is there.

    Cost: 1 HEAD + 1 GET (of a large object, ranged ones); for a directory 1 LIST sequence more.
    """
    address = parse_url(url)
    if address.kind == "directory":
        root, key = os.path.split(address.name)
        if os.path.isdir(address.name):
            return dump_listing(open_bucket(address.name, options=options), "", url)
        if not os.path.isfile(address.name):
            raise ObjectNotFoundError(f"nothing is at {url}.")
        return dump_object(open_bucket(root, options=options), key, name=address.name)
    root, key = split_url(url)
    bucket = open_bucket(root, options=options)
    if key and not url.endswith("/"):
        try:
            return dump_object(bucket, key)
        except ObjectNotFoundError:
            pass
    return dump_listing(bucket, f"{key}/" if key else "", url)


def dump_object(bucket: Bucket, key: str, *, name: str | None = None) -> Dump:
    """Dump one object of a bucket.

    Args:
        name: what its kind is told by, where the key isn't the whole path.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> _ = db.create_table("events").append([{"n": 1}])
        >>> print(dump_object(db.bucket, "events/_firn/table.json").kind)
        table definition
    """
    info = bucket.head(key)
    data = bucket.get(key).data if info.size <= WHOLE_UP_TO else None

    def read(start: int, length: int) -> bytes:
        if data is not None:
            return data[start : start + length]
        return bucket.get_range(key, start, length)

    decoded: Decoded = decode_object(name or key, info.size, read)
    modified = datetime.fromtimestamp(info.modified_ms / 1000, timezone.utc)
    return Dump(
        bucket.uri(key),
        decoded.kind,
        info.size,
        modified,
        decoded.fields,
        {title: tuple(entries) for title, entries in decoded.sections.items()},
        tuple(decoded.problems),
    )


def dump_listing(bucket: Bucket, prefix: str, url: str) -> Dump:
    """The objects below a prefix, with sizes and times. 1 LIST sequence."""
    objects = bucket.list(prefix).objects
    if not objects:
        raise ObjectNotFoundError(f"nothing is at {url}.")
    lines = []
    for info in objects:
        when = datetime.fromtimestamp(info.modified_ms / 1000, timezone.utc)
        lines.append(f"{when:%Y-%m-%d %H:%M:%S}  {info.size:>12,}  {info.key[len(prefix) :]}")
    return Dump(url, "directory", sum(i.size for i in objects), None, {}, {"objects": tuple(lines)})
