"""Everything that a person sees: tables, messages, progress bars, exit codes.

All printing enters here; commands don't. Begin at `output`.
"""
