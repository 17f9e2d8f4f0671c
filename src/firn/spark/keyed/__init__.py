"""Keyed tables on Spark: reads, changes and bulk loads.

Code that plans or writes keyed tables on Spark enters here. Begin at `scan`.
"""
