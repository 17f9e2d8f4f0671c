"""All writers of a database, read as one: their tables' definitions, files and names.

Code that joins several writers' states enters here; it only reads, but for the record of the database's name.
Begin at `federation`, then `union`.
"""
