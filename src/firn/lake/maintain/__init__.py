"""Maintenance of lake tables: verbs that replace, remove or restore files, or change a definition.

Verbs that take the lock or replace files enter here. Begin at `maintenance`, then `tasks`.
"""
