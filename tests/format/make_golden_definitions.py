"""Write the golden tables with types that don't fit, and changed definitions:
`python tests/format/make_golden_definitions.py`.

What is there is never written anew. `rows.json` says what each table reads as, from the rows that went in.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import firn
from firn.journal.model import KnownColumns

GOLDEN = Path(__file__).parent / "golden-definitions"
ROWS: dict[str, list[dict[str, Any]]] = {
    "conflicting": [{"x": 1}, {"x": 2}, {"x~double": 2.5}, {"x~varchar": "three"}],
    "resolved": [{"x": 1.0}, {"x": 2.0}, {"x": 2.5}, {"x~varchar": "three"}],
    "altered": [{"x": "1"}, {"x": "2"}, {"x": "2.5"}, {"x": "three"}],
    "second": [{"x": 5}],
}


def blindly(table: firn.LakeTable, rows: list[dict[str, Any]]) -> None:
    """Append as if the table had no columns."""
    table.journal.known = lambda **_: KnownColumns({})  # type: ignore[method-assign]
    table.append(rows)
    del table.journal.known


def make(directory: Path) -> None:
    """All tables, on both journals: those of writers' catalogs begin with `w_`."""
    for journal, prefix in (("leaderless", ""), ("writer", "w_")):
        db, other = firn.connect(directory, writer="w"), firn.connect(directory, writer="v")
        for name in ("conflicting", "resolved", "altered"):
            table = db.create_table(f"{prefix}{name}", journal=journal)
            table.append([{"x": 1}, {"x": 2}])
            blindly(table, [{"x": 2.5}])
            blindly(other.table(table.name), [{"x": "three"}])
            if name == "resolved":
                table.alter(types={"x": "DOUBLE"})
            table.merge()
            if name == "altered":
                table.resolve("x", to="VARCHAR")
                table.alter(set_properties={"codec": "snappy", "orphan_age": "3d"})
                table.merge()
    db.create_table("second").append([{"x": 4}])
    db.drop_table("second")
    db.create_table("second").append([{"x": 5}])


if __name__ == "__main__":
    warnings.simplefilter("ignore", firn.DegradedReadWarning)
    if not (GOLDEN / "db").exists():
        make(GOLDEN / "db")
        (GOLDEN / "rows.json").write_text(json.dumps(ROWS, indent=1) + "\n", "utf-8")
