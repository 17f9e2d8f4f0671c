"""The kinds of tables: `lake`, `keyed` and `records`, each one object that makes, opens and drops its tables.

`kind` says what such an object promises, `definitions` reads the definition of a table of any kind. Only what all
kinds share, and a module for each, enters here. Begin at `kind`.
"""
