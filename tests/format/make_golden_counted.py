"""Write the golden tables whose batches of a source were closed short: `python tests/format/make_golden_counted.py`.

Appenders of both journals counted two whole batches of four rows and one of two. What is there is never written anew.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from make_golden_catalogs import connect

import firn

GOLDEN = Path(__file__).parent / "golden-counted"
KINDS = {"log": "leaderless", "catalog": "writer"}
ROWS, FIRST = 4, 10


def append(table: firn.LakeTable, count: int, rows: int = ROWS) -> int:
    """Append so many rows of the source, as it is read from its beginning. How many the table has afterwards."""
    with table.appender(rows=rows, batch_ids="golden/") as out:
        for n in range(count):
            out.add({"n": n})
    return table.scan().count()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "db"
        for name, journal in KINDS.items():
            db = connect(database, "ann")
            append(db.create_table(name, journal=journal, properties={"inline": "64KB"}), FIRST)
            db.close()
        shutil.rmtree(database / ".firn-tmp", ignore_errors=True)
        shutil.copytree(database, GOLDEN)  # fails if it is there
