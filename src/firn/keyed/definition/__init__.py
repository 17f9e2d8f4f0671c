"""The definition of a keyed table, and what its metadata weighs.

Fields and properties of the definition enter here; changes of them are in `keyed.maintain`. Begin at `definition`.
"""
