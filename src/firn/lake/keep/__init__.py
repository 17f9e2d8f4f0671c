"""Tables that keep themselves: folds, merges, sweeps and log checkpoints that nobody asks for.

`policy` is pure; `fold` writes rows of logs into files, by what is new in the log; `table_keeper` does all that one
table needs; `keeper` is the thread of a process that appends. Code that decides when maintenance runs enters here;
verbs that users call are in `maintain`. Begin at `table_keeper`.
"""
