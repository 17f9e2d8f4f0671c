"""Where the only writer that defines a table couldn't be read, the table was missing from lists and unknown by its
name, without a word about that writer."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

import firn
from firn.degraded import forget_warnings


def missing(db: firn.Database) -> None:
    with pytest.raises(firn.TableNotFoundError):
        db.table("t")


@pytest.mark.parametrize("ask", [lambda db: db.tables(), missing], ids=["tables", "table"])
def test_a_table_that_nobody_can_tell_of_is_not_missed_in_silence(
    ask: Callable[[firn.Database], object],
) -> None:
    url = f"memory://{uuid4().hex}"
    db = firn.connect(url, writer="a")
    db.create_table("t", journal="writer").append([{"x": 1}])
    firn.connect(url, writer="b").create_table("u", journal="writer")
    for info in db.bucket.list("a/").objects:
        if info.key.endswith(".transaction"):
            db.bucket.put(info.key, db.bucket.get(info.key).data[:-1])
    reader = firn.connect(url)
    forget_warnings()
    with pytest.warns(firn.DegradedReadWarning, match="the writer a is left out.*`firn rebuild`"):
        ask(reader)
    firn.connect(url, writer="a").rebuild()
    assert firn.connect(url).tables() == ["t", "u"]
    assert firn.connect(url).table("t").scan().count() == 1
