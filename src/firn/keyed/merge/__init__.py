"""Merging: of a key's versions what a reader sees, for the memtable and for sorted runs.

Merge operators, orders and pieces of runs enter here; requests don't. Begin at `versions`, then `operators`.
"""
