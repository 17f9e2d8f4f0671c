"""Partitioning: which directory a row belongs to, and what a directory says about its rows.

Transforms and their paths and bounds enter here; all of it is pure. Begin at `partition`.
"""
