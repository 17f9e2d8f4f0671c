"""Keeping a writer's catalog short: pruning its history, collecting its garbage.

Code that deletes objects of a catalog enters here (rules 20 to 27). Begin at `prune`, then `collect`.
"""
