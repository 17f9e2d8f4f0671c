"""Write the golden tables whose columns, partitions and order were altered:
`python tests/format/make_golden_evolved.py`.

What is there is never written anew. `expected.json` says what each version of each table reads as.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import firn

GOLDEN = Path(__file__).parent / "golden-evolved"


def make(directory: Path) -> dict[str, Any]:
    """All tables, on both journals: those of writers' catalogs begin with `w_`. Also what their versions read as."""
    told: dict[str, Any] = {}
    for journal, prefix in (("leaderless", ""), ("writer", "w_")):
        db = firn.connect(directory, writer="w")
        for name in ("evolved", "restored"):
            schema = {"a": "BIGINT", "b": "VARCHAR", "day": "DATE"}
            table = db.create_table(
                f"{prefix}{name}", journal=journal, schema=schema, partition_by=["truncate(1, b)"]
            )
            versions: list[tuple[str, list[dict[str, Any]]]] = []

            def note(table: firn.LakeTable = table, versions: list[Any] = versions) -> None:
                versions.append((table.version, shown(table)))

            table.append([{"a": n, "b": "xy"[n % 2], "day": date(2020, 1, n)} for n in (1, 2, 3)])
            note()
            table.alter(
                rename={"a": "b", "b": "a"}, add={"ok": ("BOOLEAN", True), "late": "DOUBLE"}, drop=["day"]
            )
            note()
            table.append([{"a": "x", "b": 4, "late": 0.5}, {"a": "z", "b": 5, "ok": None}])
            table.alter(add={"day": "VARCHAR"}, partition_by=["bucket(2, b)"], sort_by=["b desc"])
            table.append([{"a": "x", "b": 6, "day": "monday"}])
            note()
            table.delete("b = 2")
            table.alter(checks={"some": "b > 0"}, comments={"a": "a letter"}, comment="golden")
            table.merge()
            note()
            if name == "restored":
                table.restore(versions[0][0])
                note()
            told[table.name] = versions
    return told


def shown(table: firn.LakeTable, at: str | None = None) -> list[dict[str, Any]]:
    rows = table.scan(at=at).to_arrow().to_pylist()
    return sorted(json.loads(json.dumps(rows, default=str)), key=str)


if __name__ == "__main__":
    if not (GOLDEN / "db").exists():
        expected = make(GOLDEN / "db")
        (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")
