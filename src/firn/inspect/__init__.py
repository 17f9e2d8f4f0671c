"""Looking at a database without changing it: any object as text (`dump`), what is damaged (`fsck`), tables as a page
(`report`).

Only what reads enters here. `dump` takes objects as they are, damaged ones too; `report` collects `facts`, and puts
sections of each table on a `page`.
"""
