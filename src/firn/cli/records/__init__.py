"""Commands for record tables: the group `firn records`, and what `firn log` prints of one.

`group` is the group, `target` opens tables and reads documents, `read`, `write`, `load` and `copy` hold the commands
for rows, `upkeep` those for indices.
"""
