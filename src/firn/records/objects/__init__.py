"""Objects of a record table: rows with their versions, and the store that all clients share.

Code that reads, encodes or decodes one object enters here. Begin at `row`, then `store`.
"""
