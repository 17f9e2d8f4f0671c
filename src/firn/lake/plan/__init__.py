"""A lake table at one version, narrowed and shared out, for an engine to read.

Plans of reads enter here; engines don't. Begin at `read`.
"""
