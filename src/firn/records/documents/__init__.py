"""Documents: what a row may hold, how it is kept as JSON, and what it can be looked for by.

Checks and shapes of values enter here; all of it is pure. Begin at `documents`, then `predicates`.
"""
