"""Bulk load: rows straight into sorted runs, past memtable and flush.

Code that turns users' rows into runs enters here. Begin at `bulk_load`.
"""
