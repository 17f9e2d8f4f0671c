"""Reading record tables at one commit: by id, through indices, in order, or all rows.

Code that reads enters here; a transaction's own writes don't. Begin at `snapshot`.
"""
