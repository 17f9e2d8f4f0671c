"""What MERGE INTO and UPDATE match: clauses, the source, and which rows of which files it touches.

Begin at `matching`, then `clauses` and `source`; `firn.lake.maintain.merge_into` runs them.
"""
