"""Reading lake tables: files in, rows of a table's columns and types out.

Code that opens data files enters here. `read` is the only place that opens Parquet files. Begin at `scan`.
"""
