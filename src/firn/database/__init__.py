"""A database: a prefix of a bucket, and the tables of all kinds below it.

Code that knows every kind of table enters here: opening, creating and dropping by name, transactions, copies, upkeep.
Begin at `database`, then `tables`. To add a kind of table, read
`docs/design/0013-add-a-kind-of-table.md`.
"""
