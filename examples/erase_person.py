"""Erase a person: their rows leave the table, and then the bucket.

python examples/erase_person.py [DATABASE]
"""

from __future__ import annotations

import sys
import tempfile

import firn

PEOPLE = ["ada", "grace", "alan", "edsger"]


def main(url: str) -> None:
    db = firn.connect(url)
    visits = db.create_table("visits", partition_by=["bucket(2, person)"])
    for day in range(3):
        visits.append([{"person": person, "day": day, "page": f"/{person}/{day}"} for person in PEOPLE])

    # 1. No version from now on has the rows. Only files that may hold some are rewritten.
    plan = visits.delete("person = 'alan'", dry_run=True)
    done = visits.delete("person = 'alan'")
    print(f"looked into {plan.files_removed} of 6 files, rewrote {done.files_removed}")
    assert visits.scan(where="person = 'alan'").count() == 0

    # 2. Older versions still have them, for queries that are running and for time travel.
    before = visits.history()[-2].version
    print(f"the version before has {visits.scan(where=PERSON, at=before).count()} of the rows")
    assert visits.scan(where=PERSON, at=before).count() == 3

    # 3. Sweep deletes those files: after the grace by itself, now if nobody reads older versions.
    report = visits.sweep(older_than="0s")
    print(f"sweep deleted {len(report.data_files)} data files and {len(report.logs)} logs")

    # 4. See for yourself: no object below the table has the name in it.
    objects = visits.bucket.list(visits.prefix + "/").objects
    left = [info.key for info in objects if b"alan" in visits.bucket.get(info.key).data]
    assert [key for key in left if "/_data/" in key] == []
    try:
        visits.scan(at=before).to_arrow()
    except firn.SnapshotTooOldError as error:
        print(f"the version before is gone: {error.kind}")
    else:
        raise AssertionError("the old version can still be read")


PERSON = "person = 'alan'"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
