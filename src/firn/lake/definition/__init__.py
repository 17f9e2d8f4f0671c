"""The definition of a lake table: what it was created with, and its key.

Fields of the definition and their checks enter here; changes of them are in `lake.maintain`. Begin at `definition`.
"""
