"""Which files and row groups a predicate needn't read, and which rows don't exist.

Code that judges by statistics, filters and partitions enters here; all of it is pure. Begin at `prune`.
"""
