"""Names of a record table's objects, and how ids and indexed values become parts of them.

The rules that docs/format/records.md freezes enter here; all of it is pure. Begin at `layout`.
"""
