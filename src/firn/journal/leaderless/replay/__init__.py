"""Reading a leaderless log: from listed logs to a table's state.

Code that lists, fetches, caches or replays logs enters here; code that writes them doesn't. `replay` is pure,
`loader` makes the requests. Begin at `table_log`.
"""
