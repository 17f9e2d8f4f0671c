"""Rows as Arrow: column types by their names, casts that lose nothing, inputs of users, and DuckDB over them.

Nothing here knows tables or stores. Start with `types` for the names of types and their Arrow types, `inputs` for
the data that `append` and similar verbs accept; `pyvalues` turns Python's values into columns, `engine` runs SQL
over tables.
"""
