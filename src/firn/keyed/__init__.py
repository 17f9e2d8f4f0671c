"""Keyed tables: an LSM tree whose sorted runs are Parquet objects.

`table` is what users hold, and the `context` that each verb takes. `load` and `write` make runs, `maintain` replaces
and deletes them, `read` reads those of a view; `founding` is how a table begins. Imports go that way: table, aio,
load, write, maintain, read, founding, context, definition, sst, merge, encoding.
"""
