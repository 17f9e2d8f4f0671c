"""How writers agree on what exists when all they share is a bucket.

`model` holds what every lake journal loads to (`Snapshot`) and takes (`Commit`); each subpackage is one
commit discipline: `leaderless` (one PUT under a unique name). Journals touch the store only through
`firn.bucket` and know nothing of Parquet. Start reading at `model`, then `leaderless/__init__`.
"""
