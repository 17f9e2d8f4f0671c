"""Maintenance of keyed tables: compaction, checkpoints, clones, sweep, properties.

Code that replaces or deletes runs enters here; `policy` decides, and is pure. Begin at `compaction`.
"""
