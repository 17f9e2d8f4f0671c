"""The definition of a record table: what it was created with, and what an `alter` makes of it.

The object's fields and their checks enter here; how a change is committed is in `records.maintain`. Begin at
`definition`.
"""
