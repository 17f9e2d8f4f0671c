"""The writer's catalog: a linear history of one writer's own, after the IOx paper on catalog persistence.

`layout` names objects, `frame` and `messages` hold their bytes, `state` replays transactions, `listing` and
`history` read, `forks` decides which branch counts; `commit` writes by PUT and LIST, `claims` by put-if-absent;
`checkpoint` writes states; `metadata` describes data files in their own footers, `marker` holds what they can't.
`prune` shortens a history, `collect` deletes files that nothing needs after that, `repair` decides forks by hand.
The format page is docs/format/writer-catalog.md. Start reading at `history`.
"""
