"""Results that are asked for their rows late: after tables were dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.errors import TableNotFoundError

TABLES: Mapping[str, Mapping[str, Any]] = {
    "records": {"schema": {"n": "BIGINT"}},
    "records without transactions": {"schema": {"n": "BIGINT"}, "isolation": "row"},
    "keyed": {"schema": {"n": "BIGINT"}, "key": {"_id": "VARCHAR"}},
    "lake": {},
}


def made(db: firn.Database, kind: str, n: int) -> None:
    name, *_ = kind.split()
    table = db.create_table("t", kind=name, **TABLES[kind])  # type: ignore[call-overload]
    if name == "lake":
        table.append([{"_id": "a", "n": n}])
    elif name == "records":
        table.insert("a", {"n": n})
    else:
        with table.open() as kv:
            kv.put("a", {"n": n})


@pytest.mark.parametrize("where", ["", " WHERE _id = 'a'"])
@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_a_table_that_was_dropped_meanwhile(kind: str, where: str, tmp_path: Path) -> None:
    """An empty answer would be wrong, and so would the rows of the next table of the name."""
    db = firn.connect(tmp_path)
    made(db, kind, 1)
    db.close()  # commits are applied: the rows are in their objects
    db = firn.connect(tmp_path)
    late = [db.sql(f"SELECT n FROM t{where}") for _ in range(2)]
    db.drop_table("t")
    with pytest.raises(TableNotFoundError, match=r"was dropped|no table 't'"):
        late[0].to_arrow()
    made(db, kind, 2)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        late[1].to_arrow()
    assert list(db.sql("SELECT n FROM t")) == [{"n": 2}]


def test_rows_that_a_drop_deletes_between_their_list_and_their_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = firn.connect(tmp_path)
    made(db, "records", 1)
    db.close()
    db = firn.connect(tmp_path)
    late = db.sql("SELECT n FROM t")
    get_many: Callable[..., Any] = db.bucket.get_many

    def dropped_first(keys: Any) -> Any:
        monkeypatch.undo()
        firn.connect(tmp_path).drop_table("t")
        return get_many(keys)

    monkeypatch.setattr(db.bucket, "get_many", dropped_first)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        late.to_arrow()
