"""Loading many rows, and how far a table was copied.

Code that splits rows into transactions enters here. Begin at `load`.
"""
