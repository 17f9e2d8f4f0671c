"""A sweep looked at the files of its own table only, so those of a dropped one stayed for good."""

from __future__ import annotations

from lake_journals import WriterLake


def test_sweeping_another_table_deletes_the_files_of_a_dropped_one() -> None:
    lake = WriterLake()
    kept, dropped, other = (lake.create(name) for name in ("kept", "dropped", "other"))
    for table in (kept, dropped, other):
        table.append([{"x": 1}])
    other.append([{"x": 2}])
    other.merge()
    lake.db.drop_table("dropped")
    lake.age()
    gone = lake.stored("dropped")
    report = kept.sweep(orphans="0s")
    assert set(report.data_files) == gone and len(gone) == 1
    assert (len(lake.stored("kept")), len(lake.stored("other"))) == (1, 3), "the other table's are its own"
    assert lake.db.table("kept").scan().count() == 1


def test_a_dropped_table_stays_as_long_as_a_retained_revision_reads_it() -> None:
    lake = WriterLake()
    kept, dropped = lake.create("kept"), lake.create("dropped")
    then = dropped.append([{"x": 1}]).version
    lake.db.drop_table("dropped")
    kept.append([{"x": 1}])
    assert kept.sweep(orphans="0s").data_files == ()
    assert dropped.scan(at=then).to_arrow().num_rows == 1
