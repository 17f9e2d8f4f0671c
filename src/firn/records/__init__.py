"""Record tables: JSON documents by id and through indices, changed in transactions with snapshot isolation.

Code here knows documents, rows, indices and transactions; the log that orders commits is `journal.sequence`,
for which bodies are bytes and index entries names. `names` names objects, `documents` says what can be kept and
looked for, `objects` holds versions of rows. `read` reads at a snapshot, `write` begins, judges and commits; `apply`
brings rows and indices up to the log, `maintain` builds indices and removes what is old. `RecordTable` and `RowTable`
are what users hold, each also for asyncio. Start reading at `write.transaction`.
"""
