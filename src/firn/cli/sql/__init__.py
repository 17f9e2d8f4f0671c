"""`firn sql`: one statement, a script, or the interactive shell. Begin at `command.sql`."""
