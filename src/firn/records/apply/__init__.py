"""Applying commits: rows and index entries are brought up to the log (rules 20 and 21).

Code that puts rows of committed transactions enters here, and what mends rows that are damaged or lost. Begin at
`apply`.
"""
