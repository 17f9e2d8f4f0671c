"""The columns of an SST: what every entry has, then the value.

A run in memory has the same columns in the same order, so that SSTs, memtables and merges pass batches on as
they are. docs/format/sst.md has the file around them.
"""

from __future__ import annotations

import pyarrow as pa

from firn.errors import InvalidInputError
from firn.names import fold

KEY = "key"  # frozen, as the other names
SEQ = "seq"
KIND = "kind"
EXPIRE_AT = "expire_at"

ENTRY_COLUMNS = (KEY, SEQ, KIND, EXPIRE_AT)

_ENTRY_FIELDS = (
    pa.field(KEY, pa.binary(), nullable=False),
    pa.field(SEQ, pa.int64(), nullable=False),
    pa.field(KIND, pa.int8(), nullable=False),
    pa.field(EXPIRE_AT, pa.int64()),
)


def sst_schema(values: pa.Schema) -> pa.Schema:
    """The columns of a run whose values have the columns `values`; those are null in deletes, so nullable.

    >>> sst_schema(pa.schema({"value": pa.binary()})).names
    ['key', 'seq', 'kind', 'expire_at', 'value']

    Raises:
        InvalidInputError: a value column has the name of one that every entry has.
    """
    taken = sorted({fold(name) for name in values.names} & set(ENTRY_COLUMNS))
    if taken:
        raise InvalidInputError(
            f"a keyed table's values can't have a column {taken[0]!r}: every entry has one of that name. Rename it"
        )
    return pa.schema([*_ENTRY_FIELDS, *(field.with_nullable(True) for field in values)])
