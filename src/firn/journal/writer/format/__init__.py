"""The names and the bytes of a writer catalog's objects.

Names, frames, messages and the state that actions make enter here; requests don't. The format page is
docs/format/writer-catalog.md. Begin at `layout`, then `actions` and `state`.
"""
