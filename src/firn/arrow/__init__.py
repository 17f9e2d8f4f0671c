"""Rows as Arrow: column types by their names, casts that lose nothing, what users hand over, and DuckDB over it.

Nothing here knows tables or stores. Start with `types` for the names of types and their Arrow types, `inputs` for
what `append` and its like accept; `pyvalues` turns Python's values into columns, `engine` runs SQL over tables.
"""
