"""`add` on DECIMAL columns of more than 28 digits rounded to Python's own decimal context."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from kv_tables import new_table

LARGE = Decimal("1234567890123456789012345678901234.1234")
SMALL = Decimal("0.0001")


@pytest.mark.parametrize("digits", [3, 28, 60])
def test_sums_of_38_digits_are_exact(digits: int) -> None:
    table = new_table(schema={"total": "DECIMAL(38,4)"}, merge_operator="add")
    with localcontext() as context, table.open(compaction=False) as kv:
        context.prec = digits
        kv.put(b"k", {"total": LARGE})
        kv.merge(b"k", {"total": SMALL}, durable=False)
        kv.merge(b"k", {"total": SMALL})
        assert str(kv.get(b"k")["total"]) == "1234567890123456789012345678901234.1236"
        table.compact(full=True)
        assert str(table.reader().get(b"k")["total"]) == "1234567890123456789012345678901234.1236"
