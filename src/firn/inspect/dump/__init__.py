"""Any object of a database as text or JSON, damaged ones too.

Decoders of objects enter here, a module a format. Begin at `dump`.
"""
