"""Reading one writer's catalog: its revisions, and the content of each.

Code that lists and reads transactions enters here. Code that writes doesn't, except for checkpoints, which are a
cache. `forks` is pure. Begin at `history`.
"""
