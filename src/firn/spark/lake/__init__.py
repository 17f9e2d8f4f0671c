"""Lake tables on Spark: reads by its own Parquet reader where it can, and appends from executors.

Code that plans or writes lake files on Spark enters here. Begin at `scan`.
"""
