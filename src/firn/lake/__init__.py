"""Lake tables: Parquet files behind a journal, written once and working over any `LakeJournal`.

`table` is what users hold; `scan` reads, `append` writes, `maintenance` merges, deletes and rewrites by
tasks. `write` and `read` are the only places that make and open Parquet files. `predicate`, `partition`,
`prune` and `stats` decide what needn't be read. To add a kind of table, look at `firn.database.database`.
"""
