"""Forks, which only stores without conditional puts have, and which a person decides.

Branches and their repair enter here. A reader of the claims' path never opens this folder. Begin at `repair`.
"""
