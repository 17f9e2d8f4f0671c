"""`firn demo`: the whole of Firn on real data in a minute, in a directory to play with afterwards.

`command` handles the directory, `story` runs the steps, `stands` those of record tables; other processes do what
`flying` says, `stage` prints. Start reading in `story`.
"""
