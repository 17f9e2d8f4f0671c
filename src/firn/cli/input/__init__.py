"""Files and standard input that commands read, as Arrow tables.

Readers of CSV, JSON and Parquet enter here. Begin at `inputs`.
"""
