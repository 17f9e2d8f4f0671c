"""SSTs: sorted runs as Parquet objects with a block index, a Bloom filter and a checked tail.

Code that makes or reads one SST enters here; which SSTs a table has doesn't. Begin at `writer`, then `reader`.
"""
