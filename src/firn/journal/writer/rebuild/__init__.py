"""Rebuilding a writer's catalog that is lost, from whatever objects still tell of it.

Code that reads evidence and plans lost transactions enters here; only `rebuild` writes. Begin at `rebuild`.
"""
