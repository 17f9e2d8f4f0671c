"""The options of the data source `firn`, parsed and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from firn.errors import InvalidInputError, UnsupportedError

STORE_PREFIX = "store."

_CATALOG = (
    "Spark keeps neither path nor options of an entry whose source is written in Python, so that nothing can read it "
    "(DROP TABLE removes the entry and no data). Use CREATE TEMP VIEW name USING firn OPTIONS (path '…'), or load "
    'and save by path, with mode("append") or mode("overwrite").'
)

_SPARKS_OWN = frozenset(("checkpointlocation", "queryname", "mergeschema"))


@dataclass(frozen=True)
class SourceOptions:
    """The options that a user gave to `option` and `load`; names match in any case."""

    url: str
    table: str
    store: Mapping[str, Any] = field(default_factory=dict, repr=False)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    at: str | None = None
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    journal: str | None = None
    writer: str | None = None
    strict: bool = False
    starting_time: str | None = None
    max_files: int | None = None
    changes: bool = False
    since: str | None = None

    @staticmethod
    def parse(options: Mapping[str, str], split: Callable[[str], tuple[str, str]]) -> SourceOptions:
        """Check and take apart Spark's options.

        Raises `InvalidInputError` for a missing table, a value that can't be, and an unknown name: a slip of
        the pen in `where` must not read the whole table.

        Example:
            >>> SourceOptions.parse({"path": "./prod/flights", "columns": "origin, delay"},
            ...                     lambda url: tuple(url.rsplit("/", 1))).columns
            ('origin', 'delay')
        """
        given = {name.lower(): value for name, value in options.items()}
        store = {
            name[len(STORE_PREFIX) :]: _store_value(given.pop(name))
            for name in list(given)
            if name.startswith(STORE_PREFIX)
        }
        known = {name.lower() for name in KNOWN}
        if "provider" in given:  # what Spark adds where it asks for the schema of an entry of its catalog
            raise UnsupportedError(f"a table of Spark's catalog can't be USING firn: {_CATALOG}")
        for name in given:
            if name not in known and name not in _SPARKS_OWN and not name.startswith(("__", "spark.")):
                raise InvalidInputError(
                    f"the data source firn has no option {name!r}; there are: {', '.join(KNOWN)}, and "
                    f"{STORE_PREFIX}<name> for the options of the store."
                )
        url, table = given.get("url"), given.get("table")
        if url is None and table is None and given.get("path"):
            url, table = split(given["path"])
        elif table is not None and url is None:
            url = given.get("path")
        if not url or not table:
            raise InvalidInputError(
                'name the table: load("./prod/flights"), or option("url", "./prod") and '
                f'option("table", "flights"). If this is a table of Spark\'s catalog: {_CATALOG}'
            )
        fields = {
            field: parse(given[name.lower()])
            for name, (field, parse) in _FIELDS.items()
            if name.lower() in given
        }
        return SourceOptions(url, table, store, **fields)


_ITEM = re.compile(r"""\s*((?:"[^"]*"|`[^`]*`|\([^()]*\)|[^,"`()])+?)\s*(?:,|$)""")


def _names(text: str) -> tuple[str, ...]:
    """A JSON list, or items between commas; a comma inside parentheses belongs to the item."""
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"{text!r} isn't a JSON list of names: {error}") from error
        if not all(isinstance(name, str) for name in names):
            raise InvalidInputError(f"{text!r} isn't a JSON list of names.")
        return tuple(names)
    names, at = [], 0
    while at < len(text):
        found = _ITEM.match(text, at)
        if found is None:
            raise InvalidInputError(f"{text!r} isn't a list of names between commas; a JSON list works too.")
        names.append(found[1])
        at = found.end()
    return tuple(names)


def _store_value(text: str) -> Any:
    """Spark's options are all text; switches and numbers are what the bucket expects."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdigit() else text


def _switch(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise InvalidInputError(f"{name} is {text!r}; it is true or false.")
    return text.strip().lower() == "true"


def _count(text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        raise InvalidInputError(f"maxFilesPerTrigger is {text!r}; it is a number of files, at least 1.")
    return int(text)


_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "columns": ("columns", _names),
    "where": ("where", str),
    "at": ("at", str),
    "partitionBy": ("partition_by", _names),
    "sortBy": ("sort_by", _names),
    "journal": ("journal", str),
    "writer": ("writer", str),
    "strict": ("strict", partial(_switch, "strict")),
    "changes": ("changes", partial(_switch, "changes")),
    "since": ("since", str),
    "startingTime": ("starting_time", str),
    "maxFilesPerTrigger": ("max_files", _count),
}
"""The field of `SourceOptions` that each option fills."""

KNOWN = ("path", "url", "table", *_FIELDS)
