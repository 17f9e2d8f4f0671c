"""SQL on Spark: queries whose predicates prune, and what both engines agree on.

Code that parses or judges queries enters here. Begin at `sql`.
"""
