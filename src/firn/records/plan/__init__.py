"""A record table at one commit, narrowed by id and shared out, for an engine to read.

Plans of reads enter here; engines don't. Begin at `read`.
"""
