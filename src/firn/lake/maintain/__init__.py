"""Maintenance of lake tables: verbs that replace, remove or restore files, or change a definition.

A module a verb. Each holds the table's lock, plans over one snapshot, maps tasks where files must be read, and
publishes one commit. A crash anywhere before that leaves nothing but parts that sweep deletes. Files are read through
the soft deletes on them, so what is written in their place needs none. Only files that the connection owns are
touched; other writers' that match are counted.

Begin at `merge`, then `change`, which all verbs share, and `tasks`.
"""
