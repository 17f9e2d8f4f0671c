"""The definition of a record table: what it was created with.

The object's fields and their checks enter here; changes of them are in `records.maintain`. Begin at `definition`.
"""
