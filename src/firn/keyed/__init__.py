"""Keyed tables: an LSM tree whose sorted runs are Parquet objects."""
