"""Lake tables: Parquet files behind a journal, written once and working over any `LakeJournal`.

`table` is what users hold: each verb hands its `context` to the module that does it. `maintain` merges, deletes and
rewrites by tasks, `write` appends, `read` scans; `read` and `write` are the only places that open and make Parquet
files. `partition` and `prune` decide what needn't be read. Imports go that way: table, maintain, write, read, prune,
context, definition. To add a kind of table, read
`docs/design/0013-add-a-kind-of-table.md`.
"""
