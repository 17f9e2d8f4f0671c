"""Parquet files as bytes: encoded with statistics and filters, opened by ranges, checked by their footers.

Code that knows the file format enters here; tables and journals don't. Begin at `encode`, then `source`.
"""
