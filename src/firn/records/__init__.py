"""Record tables: JSON documents by id and through indices, changed in transactions with snapshot isolation.

What enters knows documents, rows, indices and transactions; the log that orders commits is `journal.sequence`,
for which bodies are bytes and index entries names. `layout` names objects, `documents` and `predicates` say what can
be kept and looked for, `row` holds versions. `snapshot` reads, `transaction` writes, `validating` judges; `applying`
brings rows and indices up to the log, which `applier` does in the background, `collecting` removes what is old. Start
reading at `transaction`.
"""
