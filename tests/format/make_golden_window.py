"""Write the golden tables with the feature `window`: `python tests/format/make_golden_window.py`.

One was created with it, and one of version 0.1 turned it on. What is there is never written anew. `expected.json`
says what each version of each table reads as.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from make_golden import GOLDEN as BEFORE
from make_golden_inlined import read

import firn

GOLDEN = Path(__file__).parent / "golden-window"
KEPT = {"inline": "64KB", "maintain": "auto", "fold_at": 8}


def make(directory: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """Both tables, and what their versions read as."""
    shutil.copytree(BEFORE / "0.1.0" / "db" / "places", directory / "places")
    db = firn.connect(directory)
    told: dict[str, list[tuple[str, list[str]]]] = {}
    kept = db.create_table("kept", partition_by=["k"], properties=KEPT)
    for n in range(12):
        kept.append([{"k": n % 2, "n": n}])
    kept.keep(once=True)
    kept.delete("n = 3")
    kept.sweep(older_than="0s")  # what says that the logs are dead stays
    kept.append([{"k": 0, "n": 12}])
    told["kept"] = [(kept.version, read(kept))]
    kept.append([{"k": 1, "n": 13}])
    kept.checkpoint()
    told["kept"].append((kept.version, read(kept)))
    places = db.table("places")
    assert isinstance(places, firn.LakeTable)
    told["places"] = [(places.version, read(places))]
    places.alter(set_properties={"inline": "64KB", "maintain": "auto"})
    places.append([{"place": "DTW", "n": 100}])
    told["places"].append((places.version, read(places)))
    places.merge(only="inlined")
    places.checkpoint()
    told["places"].append((places.version, read(places)))
    return told


if __name__ == "__main__":
    GOLDEN.mkdir()
    expected = make(GOLDEN / "db")
    text = json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / "expected.json").write_text(text, "utf-8")
