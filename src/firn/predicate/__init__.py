"""Predicates and queries: SQL texts over a table's columns, parsed, checked, and compared with statistics.

Questions that all kinds of tables ask of an expression enter here; partitions and files don't. Begin at `predicate`,
then `domain`.
"""
