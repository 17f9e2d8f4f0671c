"""Writing a keyed table: puts, batches, memtables on their way to L0.

Everything that an open writer does enters here. Begin at `writer`, then `queue`, `flusher`, `uploader`.
"""
