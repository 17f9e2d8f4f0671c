"""How writers agree on what exists when all they share is a bucket.

`model` holds what every lake journal loads to (`Snapshot`) and takes (`Commit`); each subpackage is one
commit discipline: `leaderless` (one PUT under a unique name), `writer` (one PUT of the next revision in the
writer's own history), `manifest` (of keyed tables: one pointer that is compare-and-swapped), `sequence` (of record
tables: one PUT of the next number). `definition` is the object that every kind of table has. Journals touch the
store only through `firn.bucket` and know nothing of Parquet. Start at `model`, then at each subpackage's `__init__`.
"""
