"""Objects of a record table: rows with their versions, and the store that all clients share.

Code that reads, encodes or decodes one object enters here. Begin at `row`, then `store`; for tables with
isolation="row" at `single_version_row`, then `single_version_store`.
"""
