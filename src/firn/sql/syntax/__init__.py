"""What a text says, before any table is opened: which statement it is, its names, its versions.

No module here knows a table or an engine. Begin at `heads.read_statement`; what it returns is in `statements`. Heads
of INSERT, UPDATE, DELETE and MERGE are in `row_heads`, versions of tables in `time_travel`, and the schema of
`firn.t` in `schemas`.
"""
