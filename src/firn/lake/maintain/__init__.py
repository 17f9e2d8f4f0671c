"""Maintenance of lake tables: what replaces, removes or restores files, and what changes a definition.

Verbs that take the lock or replace files enter here. Begin at `maintenance`, then `tasks`.
"""
