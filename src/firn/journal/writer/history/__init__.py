"""Reading one writer's catalog: which revisions there are, and what each of them says.

Code that lists and reads transactions enters here; what writes them doesn't, but for checkpoints, which are a cache.
`forks` is pure. Begin at `history`.
"""
