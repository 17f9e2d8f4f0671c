"""Looking at a database without changing it: any object as text (`dump`), tables as a page (`report`).

Only what reads enters here. `dump` takes objects as they are, damaged ones too; `report` collects `facts`,
draws `figures` and puts them on a `page`.
"""
