"""Writing lake tables: rows in, named and uploaded data files out, and the append that commits them.

Code that makes data files enters here. `write` is the only place that makes Parquet files. Begin at `append`.
"""
