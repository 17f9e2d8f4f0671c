"""The names and the bytes of a leaderless table's objects.

Names, bytes and times enter here; requests don't. The format page is docs/format/leaderless-log.md.
Begin at `layout`, then `codec`.
"""
