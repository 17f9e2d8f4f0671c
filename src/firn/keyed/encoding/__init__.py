"""Keys, values and entries, as bytes and as Arrow columns.

Encodings enter here; all of it is pure and frozen by docs/format/keyed-keys.md. Begin at `keys`, then `entries`.
"""
