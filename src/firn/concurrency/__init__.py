"""Threads and processes: calls in parallel, work in the background, asyncio, forks and exits.

Code that knows nothing of buckets and tables enters here. Begin at `parallel`.
"""
