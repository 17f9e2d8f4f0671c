"""What SQL's statements do with a table of each kind.

A kind's module gives its `PART`, a `kind.SqlKind`. They call the verbs of tables, and read no text. Begin at
`kind.SqlKind`.
"""
