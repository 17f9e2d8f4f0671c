"""SQL over the tables of a database: queries, each table at one version, and statements that change tables.

The engine that runs a query is the one whose SQL it is written in: DuckDB in this process, or Spark. Nothing is
translated. The tables of a database enter by a protocol (`tables.QueryTables`), `Database` itself never. Begin at
`run.Statements`, and at `in_process.DuckQuery`, a query. `changes.Changes` runs what `syntax` has read. What a kind
of table does with statements is its `kinds.kind.SqlKind`. docs/design/0016-add-a-statement.md tells how to add one.
"""
