"""The Spark session: found or started, its workers, its types, and jobs that can be stopped.

Code that knows Spark but no kind of table enters here. Begin at `session`, then `runner`.
"""
