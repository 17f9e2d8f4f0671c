"""Record tables: JSON documents by id and through indices, changed in transactions with snapshot isolation.

What enters knows documents, rows, indices and transactions; the log that orders commits is `journal.sequence`,
for which bodies are bytes and index entries names. Start reading at `layout`, then `predicates` for what can be
looked for and `documents` for what can be kept.
"""
