"""One round of maintenance over all tables of a database: what a scheduler runs every few minutes.

    python examples/maintenance.py DATABASE

Exit codes are the command line's: 0 done, 4 another job is maintaining one of the tables (retry later).
"""

from __future__ import annotations

import sys
import tempfile

import firn


def maintain(table: firn.LakeTable) -> None:
    """Expire, merge, sweep, checkpoint: what removes comes first, so that nothing is merged in vain."""
    if table.context.definition.properties.get("retention") is not None:
        expired = table.expire()
        print(f"{table.name}: expired {expired.files_removed} files")
    merged = table.merge()
    print(f"{table.name}: merged {merged.files_removed} files into {merged.files_added}")
    swept = table.sweep()
    print(f"{table.name}: swept {len(swept.data_files) + len(swept.orphans)} files, {len(swept.logs)} logs")
    if swept.kept_foreign:
        print(f"{table.name}: {len(swept.kept_foreign)} registered files are yours to delete")
    print(f"{table.name}: the checkpoint covers {table.checkpoint()} logs")


def main(url: str) -> int:
    db = firn.connect(url)
    code = 0
    for name in db.tables():
        try:
            maintain(db.table(name))
        except firn.LockHeldError as error:
            print(error)
            code = 4
    return code


def demonstrate() -> int:
    """Without a database of yours: one that is made now and thrown away."""
    with tempfile.TemporaryDirectory() as directory:
        db = firn.connect(directory)
        table = db.create_table("events", partition_by=["day(time)"], properties={"retention": "30d"})
        for day in ("2001-01-01", "2999-01-01", "2999-01-01"):
            table.append([{"time": f"{day}T12:00:00", "value": 1}], query=TYPED)
        code = main(directory)
        assert table.scan().count() == 2
        assert len(table.snapshot().files) == 1
        return code


TYPED = "SELECT time::TIMESTAMP AS time, value FROM _rows"

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) > 1 else demonstrate())
