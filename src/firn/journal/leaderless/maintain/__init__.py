"""Maintenance of a leaderless log: the lease, the exclusive session, cleanup and sweep.

Code that holds the lease or deletes objects enters here (rules 5 to 16). Begin at `session`.
"""
