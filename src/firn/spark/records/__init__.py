"""Record tables on Spark: changes and loads.

Code that plans or writes record tables on Spark enters here. Begin at `changes`.
"""
