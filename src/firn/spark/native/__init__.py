"""Spark's own Parquet reader: which files and predicates it reads as Firn does, and which parts of a query prune.

Judgements about both engines enter here; kinds of tables don't. Begin at `parquet`, then `agreement`.
"""
