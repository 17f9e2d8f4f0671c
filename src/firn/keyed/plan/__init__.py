"""A keyed table at one version, narrowed by key and shared out, for an engine to read.

Plans of reads enter here; engines don't. Begin at `read`, then `units`.
"""
