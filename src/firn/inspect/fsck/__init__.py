"""Checks: whether objects decode, hang together, and are there. Nothing is changed.

A check of each journal and kind enters here. Begin at `fsck`.
"""
