"""Transactions: what they read and write, how they are judged, and how they are tried again.

Code that decides about a commit enters here; the log that orders commits is `journal.sequence`. Begin at
`transaction`.
"""
