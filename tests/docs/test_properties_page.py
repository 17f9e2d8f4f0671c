"""The page of table properties lists each of them, with its default."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from firn.journal.leaderless.format.settings import PROPERTIES, LeaderlessSettings
from firn.journal.writer.settings import PROPERTIES as WRITER_PROPERTIES
from firn.journal.writer.settings import WriterSettings
from firn.keyed.definition.settings import KEYED_PROPERTIES
from firn.lake.definition import definition
from firn.lake.definition.properties import TABLE_PROPERTIES
from firn.lake.write.write import WriteSpec
from firn.records.definition.settings import RECORD_PROPERTIES
from firn.units import parse_duration, parse_size

PAGE = (Path(__file__).parents[2] / "docs/howto/properties.md").read_text("utf-8")
FOUND = [
    re.findall(r"^\| `(\w+)` \| ([^|]+) \|", part, re.MULTILINE) for part in PAGE.split("\n## Keyed tables\n")
]
ROWS, OTHER_ROWS = map(dict, FOUND)
"""The rows of lake tables, and those of the other kinds: each name stands once in either."""


def test_all_are_listed_and_no_other():
    lake = TABLE_PROPERTIES.keys() | PROPERTIES.keys() | set(WRITER_PROPERTIES)
    assert sorted(name for name, _ in FOUND[0]) == sorted(lake)
    assert sorted(name for name, _ in FOUND[1]) == sorted(chain(KEYED_PROPERTIES, RECORD_PROPERTIES))


def test_what_writers_catalogs_have_of_them():
    settings = WriterSettings()
    assert settings.checkpoint_every == int(ROWS["checkpoint_every"])
    for name in set(WRITER_PROPERTIES) & PROPERTIES.keys():
        assert getattr(settings, PROPERTIES[name]) == getattr(LeaderlessSettings(), PROPERTIES[name])


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_times_of_the_protocol(name):
    shown = parse_duration(ROWS[name].strip('`"'))
    assert shown * 1000 == getattr(LeaderlessSettings(), PROPERTIES[name])


@pytest.mark.new_tables
@pytest.mark.parametrize("name", sorted(TABLE_PROPERTIES))
def test_defaults_of_the_lake(name):
    shown, _, of_new_tables = (
        part.strip(' `"') for part in ROWS[name].removesuffix(" in new tables").partition(";")
    )
    assert of_new_tables == definition.NEW_TABLES.get(name, "")
    default = TABLE_PROPERTIES[name]
    if default is None and name in WriteSpec.__dataclass_fields__:
        default = WriteSpec.__dataclass_fields__[name].default  # not set means what the writer does
    if default is None or default == ():
        assert shown == "none"
    elif name in ("target_size", "memory_budget"):
        assert parse_size(shown) == parse_size(default)
    elif isinstance(default, int):
        assert int(shown.replace(",", "")) == default
    else:
        assert shown == default


@pytest.mark.parametrize("name", sorted({**KEYED_PROPERTIES, **RECORD_PROPERTIES}))
def test_defaults_of_keyed_and_record_tables(name):
    default = {**KEYED_PROPERTIES, **RECORD_PROPERTIES}[name]
    shown = OTHER_ROWS[name].strip().strip('`"')
    assert shown == {None: "none", False: "false"}.get(default, str(default))
