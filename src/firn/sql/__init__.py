"""SQL over the tables of a database: one SELECT, each table at one version.

The engine that runs a query is the one whose SQL it is written in: DuckDB in this process, or Spark. Nothing is
translated. The tables of a database enter by a protocol (`tables.QueryTables`), `Database` itself never. Begin at
`result.Result` and `in_process.DuckQuery`.
"""
