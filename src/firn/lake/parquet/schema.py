"""How Arrow's types lie in Parquet's columns. Pure."""

from __future__ import annotations

import pyarrow as pa


def leaf_count(kind: pa.DataType) -> int:
    """How many Parquet columns a value of an Arrow type takes.

    >>> leaf_count(pa.struct({"a": pa.int8(), "b": pa.list_(pa.int8())}))
    2
    """
    if isinstance(kind, pa.BaseExtensionType):
        return leaf_count(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return leaf_count(kind.value_type)
    if pa.types.is_nested(kind):
        return sum(leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    return 1
