"""Spark's own Parquet reader: which files and predicates it reads as Firn does.

Judgements about both engines enter here; kinds of tables don't. Begin at `parquet`, then `agreement`.
"""
