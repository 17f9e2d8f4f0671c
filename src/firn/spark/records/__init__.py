"""Record tables on Spark: reads at one commit, changes and loads.

Code that plans or writes record tables on Spark enters here. Begin at `read`.
"""
