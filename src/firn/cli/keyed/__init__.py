"""`firn keyed …`: commands for tables of sorted keys.

`group` is their frame, `text` turns words of a shell into keys and values and back; the other modules are the
commands. Whatever works on tables of any kind (`firn sql`, `drop`, `dump`, `fsck`, `report`) is beside this package.
"""
