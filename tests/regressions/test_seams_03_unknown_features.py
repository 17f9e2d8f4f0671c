"""Verbs over all tables of a database stopped at a table that needs a newer Firn."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import firn
from cli_runs import done
from firn.database import writer_tables
from firn.database.upkeep import orphan_ages
from firn.journal.sealed import seal
from firn.journal.writer.federation.definition import WriterDefinition
from firn.lake.definition.definition import LakeDefinition

TELEPORT = {"firn": 5, "features": ["teleport"]}


def test_seams_03_tables_and_checkpoint_go_on(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("other").append([{"x": 1}])
    table = db.create_table("t")
    db.bucket.put("t/_firn/table.json", seal({**table.context.definition.fields(), **TELEPORT}, indent=True))
    with pytest.warns(firn.DegradedReadWarning, match="teleport"):
        assert db.checkpoint() == {"other": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", firn.DegradedReadWarning)
        run = done("tables", str(tmp_path))
    assert "other" in run.out


def test_seams_03_a_sweep_of_writers_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's own orphans stay, however old: nobody knows its orphan_age."""
    db = firn.connect("memory://", writer="w")
    for name in ("cpu", "new"):
        db.create_table(name, journal="writer").append([{"n": 1}])
    described = writer_tables._described

    def newer(definition: WriterDefinition) -> LakeDefinition:
        found = described(definition)
        if found.name == "new":
            raise firn.UnsupportedError("the definition of new needs the feature 'teleport'")
        return found

    monkeypatch.setattr(writer_tables, "_described", newer)
    with pytest.warns(firn.DegradedReadWarning, match="teleport"):
        unknown = orphan_ages(db._writer_tables)("new")
    assert unknown > 10**15 > orphan_ages(db._writer_tables)("cpu") > 0
    db.sweep()
