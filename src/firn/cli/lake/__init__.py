"""Lake tables in commands of all kinds. Their own verbs are the commands of the room above.

Only what the shell prints of lake tables, and how `ingest` appends to them, enters here. Begin at `kind`.
"""
