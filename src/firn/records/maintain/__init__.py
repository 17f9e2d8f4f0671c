"""Maintenance of record tables: indices, properties, collection of garbage, repair by hand.

Verbs that work on a whole table enter here. Begin at `collection` or `indexes`.
"""
