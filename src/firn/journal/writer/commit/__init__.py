"""Committing to one writer's catalog: an action becomes a transaction, and a transaction a revision.

Code that puts transactions enters here. `commit` has the handle, `claims` the discipline of stores with put-if-
absent. Begin at `local_writer`.
"""
