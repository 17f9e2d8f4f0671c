"""Files that DuckDB opens for a statement: those that COPY may reach, objects of buckets, spilled rows."""
