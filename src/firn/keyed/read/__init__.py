"""Reading a keyed table: gets, scans, snapshots, and the change feed.

Code that reads a view enters here; memtables come from `keyed.write`. Begin at `reads`, then `reader`.
"""
