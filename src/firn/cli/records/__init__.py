"""Commands for record tables: the group `firn records`.

`group` is the group, `target` reads documents and conditions, `read`, `write` and `load` hold the commands for rows,
`upkeep` those for indices, and `kind` what `firn log` and the like print of a record table.
"""
