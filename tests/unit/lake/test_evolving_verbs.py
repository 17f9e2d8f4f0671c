"""Tables whose columns are renamed, dropped and added: what each verb makes of it, on both journals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.lake.table import LakeTable
from moments import append_late, next_millisecond

Create = Callable[..., LakeTable]


@pytest.fixture(params=["leaderless", "writer"])
def create(request: pytest.FixtureRequest) -> Create:
    """Creates a table of each journal, with what `create_table` takes."""
    db = firn.connect(f"memory://{uuid4().hex}", writer="w")
    return lambda **options: db.create_table("t", journal=request.param, **options)


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("partition_by", [[], ["a"]])
def test_a_dropped_name_comes_back_as_another_column(create: Create, partition_by: list[str]) -> None:
    table = create(partition_by=partition_by)
    table.append([{"id": 1, "a": 1, "b": 5}])
    table.alter(drop="b")
    table.append([{"id": 2, "a": 1, "b": "new"}])
    assert rows(table) == [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": 1, "b": "new"}]
    assert [column.physical for column in table.definition().columns] == ["id", "a", "b~1"]


def test_columns_stand_where_they_were_added(create: Create) -> None:
    table = create(schema={"id": "BIGINT"})
    table.append([{"id": 1, "z": 1, "y": 2}])
    table.alter(add={"n": "BIGINT", "m": ("BIGINT", 3), "b": "VARCHAR"})
    table.alter(add={"a": "BIGINT"})
    columns = ["id", "z", "y", "n", "m", "b", "a"]
    assert list(table.scan().columns) == columns
    other = firn.connect(table.bucket.uri(""), writer="another").table("t")
    for row in ({"y": 1, "new": 1, "b": "x"}, {"a": 1}, {"m": 1, "z": 1}):
        next_millisecond()
        other.append([row])
        assert list(other.scan().columns) == [*columns, "new"]
    table.alter(rename={"m": "k"}, types={"a": "DOUBLE"}, drop="n")
    table.alter(add={"n": "BIGINT"})
    columns = ["id", "z", "y", "k", "b", "a", "new", "n"]
    assert list(table.scan().columns) == columns
    for each in (other, table):
        each.merge()
        assert list(each.scan().columns) == columns
        assert [column.name for column in each.definition().columns] == columns


@pytest.mark.parametrize("name", [" x ", "x desc"])
@pytest.mark.parametrize("declared", [False, True])
def test_names_with_spaces_at_their_ends_are_sorted_by(create: Create, name: str, declared: bool) -> None:
    table = create(sort_by=[f"{name} desc"], schema={"a": "BIGINT", name: "BIGINT"} if declared else None)

    def in_order(column: str) -> list[int]:
        table.append([{column: n, "a": n} for n in (1, 3, 2)])
        table.merge()
        found: list[int] = table.scan().to_arrow()[column].to_pylist()
        return found

    assert in_order(name) == [3, 2, 1]
    table.alter(rename={"a": "b"})
    table.append([{name: 5}])
    assert in_order(name)[0] == 5
    table.alter(rename={name: " y "})
    assert in_order(" y ")[:3] == [5, 3, 3]
    table.alter(sort_by=[" y "])
    assert in_order(" y ")[:3] == [1, 1, 1]
    table.alter(sort_by=[" y  desc"])
    assert in_order(" y ")[0] == 5 and table.definition().sort_by == (" y  desc",)


def test_long_names_of_partitions_are_refused_before_there_are_rows(create: Create) -> None:
    name = "n" * 300
    for fields in ([name], [f"bucket(4, {name})"], ["é" * 36]):
        with pytest.raises(firn.InvalidInputError, match="directories are named, and 214 can be"):
            create(partition_by=fields)
    table = create(partition_by=["a"])
    table.append([{"a": 1, name: 1}])
    version = table.snapshot().version
    with pytest.raises(firn.InvalidInputError, match="300 bytes as directories are named"):
        table.alter(partition_by=[name])
    assert table.snapshot().version == version
    table.alter(add={"o" * 214: "VARCHAR"}, partition_by=["o" * 214])
    table.append([{"a": 2, "o" * 214: "v" * 201}, {"a": 3}])
    with pytest.raises(
        firn.InvalidInputError, match=r"a name of 256 bytes, and 255 can be\. Partition by trunc"
    ):
        table.append([{"a": 4, "o" * 214: "v" * 41}])
    assert table.scan().count() == 3


@pytest.mark.parametrize("key", [[], ["id"]])
def test_rows_that_are_changed_beside_new_ones_keep_their_columns(create: Create, key: list[str]) -> None:
    table = create(key=key)
    table.append([{"id": 1, "a": 1}])
    table.alter(add={"b": ("VARCHAR", "default")})
    table.append([{"id": 2, "a": 2, "b": "own"}])
    table.merge_into(
        [{"n": 2}, {"n": 3}],
        on="t.id = s.n",
        when_matched={"a": "s.n + 7"},
        when_not_matched={"id": "s.n", "a": "s.n"},
    )
    assert rows(table) == [
        {"id": 1, "a": 1, "b": "default"},
        {"id": 2, "a": 9, "b": "own"},
        {"id": 3, "a": 3, "b": "default"},
    ]


def test_rows_that_an_overwrite_leaves_keep_their_columns(create: Create) -> None:
    table = create()
    table.append([{"id": 1, "a": 1}])
    table.alter(add={"b": ("VARCHAR", "default")})
    table.append([{"id": n, "a": n, "b": "own"} for n in (2, 3)])
    table.overwrite([{"id": 3, "a": 30}], where="id = 3")
    assert rows(table) == [
        {"id": 1, "a": 1, "b": "default"},
        {"id": 2, "a": 2, "b": "own"},
        {"id": 3, "a": 30, "b": "default"},
    ]


def register(table: LakeTable, **columns: Any) -> None:
    """A file of somebody else, whose columns are called as the table's are."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: [value] for name, value in columns.items()}), sink)
    path = f"ext/{uuid4().hex}.parquet"
    table.bucket.put(path, sink.getvalue().to_pybytes())
    table.register(path)


def test_a_registered_file_has_its_own_values_and_not_the_default(create: Create) -> None:
    table = create()
    table.append([{"id": 1}])
    table.alter(add={"e": ("BIGINT", 7)})
    register(table, id=2, e=5)
    register(table, id=3)
    assert rows(table) == [{"id": 1, "e": 7}, {"id": 2, "e": 5}, {"id": 3, "e": 7}]
    assert table.scan(where="e = 7").count() == 2


def test_a_registered_struct_may_have_its_fields_in_another_order_or_case(create: Create) -> None:
    table = create(schema={"id": "BIGINT", "s": "STRUCT(a INTEGER, b VARCHAR)"})
    kind = pa.struct([("B", pa.string()), ("a", pa.int16())])
    register(table, s=pa.scalar({"B": "x", "a": 1}, kind), id=1)
    assert rows(table) == [{"id": 1, "s": {"a": 1, "b": "x"}}]


def test_structs_with_fields_in_another_order_and_case_are_one_column(create: Create) -> None:
    """What others append meanwhile, a type that is set, a restore, and a column that goes into another."""
    table = create(schema={"id": "BIGINT"})
    table.append([{"id": 1, "s": {"a": 1, "b": "x"}}])
    append_late(table, [{"id": 2, "s": {"B": "y", "A": 2}}], {"id": "BIGINT"})
    then = [{"id": 1, "s": {"a": 1, "b": "x"}}, {"id": 2, "s": {"a": 2, "b": "y"}}]
    assert rows(table) == then and not table.conflicts()
    version = table.history()[-1].version
    table.alter(types={"s": "STRUCT(B VARCHAR, a BIGINT)"})
    assert rows(table) == [{"id": 1, "s": {"B": "x", "a": 1}}, {"id": 2, "s": {"B": "y", "a": 2}}]
    table.delete("id = 1")
    table.restore(version)
    assert [row["s"]["a"] for row in rows(table)] == [1, 2] and not table.conflicts()
    table.merge()
    assert [row["s"]["B"] for row in rows(table)] == ["x", "y"]
    assert rows(table, at=version) == then


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_no_verb_makes_a_column_of_its_own_of_what_is_set_aside(create: Create) -> None:
    table = create(schema={"id": "BIGINT"})
    table.append([{"id": 1, "a": 1}])
    append_late(table, [{"id": 2, "a": 1.5}], {"id": "BIGINT"})
    table.alter(rename={"a": "b"})
    table.merge()
    version = table.snapshot().version
    table = firn.connect(table.bucket.uri(""), writer="w").table("t")
    told = r"'a~double' holds values of 'b'.* resolve\('b'\)"
    for names in (("b", "A~double"), ("a~double",)):
        with pytest.raises(firn.InvalidInputError, match=told):
            table.append([dict.fromkeys(names, 2.5)])
        with pytest.raises(firn.InvalidInputError, match=told):
            register(table, **dict.fromkeys(names, 2.5))
    assert table.snapshot().version == version
    table.overwrite(table.scan(where="id = 2").to_arrow(), where="id = 2")
    table.append([{"id": 3, "b": 3, "a~double": None}])
    table.resolve("b")
    assert [row["b"] for row in rows(table)] == [1.0, 1.5, 3.0]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_registered_file_is_cast_to_a_type_that_was_set(create: Create, renamed: bool) -> None:
    table = create(schema={"id": "BIGINT", "e": "DOUBLE"})
    table.alter(types={"e": "VARCHAR"}, rename={"id": "n"} if renamed else {})
    table.append([{"e": "x"}])
    register(table, e=5)
    register(table, e=12)
    assert [row["e"] for row in rows(table)] == ["12", "5", "x"] or renamed
    assert table.scan(where="e = '5'").count() == 1 and table.scan(where="e > '12'").count() == 2
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"e": [True]}), sink)
    table.bucket.put("more/1.parquet", sink.getvalue().to_pybytes())
    table.bucket.put("more/2.parquet", table.bucket.get(table.snapshot().files[-1].path).data)
    with pytest.raises(firn.SchemaConflictError, match="by themselves"):
        table.register("more/")
    table.register("more/1.parquet")
    table.merge()
    assert sorted(row["e"] for row in rows(table)) == ["12", "5", "true", "x"]


def test_rows_without_the_column_that_places_them_have_its_default(create: Create) -> None:
    table = create()
    table.append([{"id": 1}])
    table.alter(add={"place": ("VARCHAR", "here")}, partition_by=["place"])
    table.append([{"id": 2}, {"id": 3}])
    table.append([{"id": 4, "place": None}])
    assert [row["place"] for row in rows(table)] == ["here", "here", "here", None]
    assert table.scan(where="place = 'here'").count() == 3
    assert [part.values for part in table.partitions()][1:] == [{"place": None}, {"place": "here"}]


def test_a_partitions_name_stays_its_columns(create: Create) -> None:
    """Else `remove_partitions` would remove rows by the values of another column."""
    table = create(partition_by=["a"])
    table.append([{"a": 1, "b": 2}])
    table.alter(rename={"a": "c"})
    for asked in ({"rename": {"b": "a"}}, {"add": {"a": "DATE"}}, {"rename": {"c": "b", "b": "a"}}):
        with pytest.raises(firn.InvalidInputError, match="partition field"):
            table.alter(**asked)
    table.alter(partition_by=[])
    with pytest.raises(firn.InvalidInputError, match="partition field"):
        table.alter(rename={"b": "a"})
    table.merge(respec=True)
    table.alter(rename={"c": "a"})
    table.alter(rename={"a": "c", "b": "a"})
    assert rows(table) == [{"c": 1, "a": 2}]


def test_a_registered_file_is_pruned_by_the_columns_that_it_shows(create: Create) -> None:
    """It has its columns under the names that they are shown by, and statistics under those that files have."""
    table = create(schema={"id": "BIGINT", "a": "BIGINT"})
    table.append([{"id": 5, "a": 50}])
    table.alter(rename={"id": "a", "a": "id"})
    register(table, a=2, id=1)
    for where, found in {"a = 1": 0, "a = 2": 1, "id = 1": 1, "id = 2": 0, "a < 9": 2}.items():
        assert table.scan(where=where).count() == len(rows(table, where=where)) == found


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
def test_merges_write_what_is_set_aside_under_its_very_name(create: Create) -> None:
    table = create()
    table.append([{"id": 1, "a": 1, "b": 1}])
    append_late(table, [{"id": 2, "a": 2.5, "b": 2}], {"id": "BIGINT", "b": "BIGINT"})
    table.alter(rename={"b": "x"})
    assert [row["a~double"] for row in rows(table)] == [None, 2.5]
    table.merge()
    assert [row["a~double"] for row in rows(table)] == [None, 2.5]
    assert [column.physical for column in table.definition().columns] == ["id", "a", "b", "a~double"]


def test_a_column_that_lost_its_name_stays_one_column(create: Create) -> None:
    """It is shown as what files call it, by chance."""
    table = create()
    table.append([{"id": 1, "a": 1, "b": 1}])
    table.alter(drop="a")
    known = table.journal.known()
    table.alter(rename={"b": "a"})
    next_millisecond()
    table.journal.known = lambda **_: known  # type: ignore[method-assign]
    table.append([{"id": 2, "a": "new"}])
    del table.journal.known
    table.merge()
    table.append([{"id": 3, "a~1": "more", "a": 3}])
    table.merge()
    assert [(row["a"], row["a~1"]) for row in rows(table)] == [(1, None), (None, "new"), (3, "more")]
    assert [column.physical for column in table.definition().columns] == ["id", "b", "a~1"]


def test_a_writer_that_is_lost_leaves_the_names_by_which_others_have_committed() -> None:
    """Rule 20: who commits by a definition that its own catalog lacks keeps it there, too."""
    url = f"memory://{uuid4().hex}"
    one, other = (firn.connect(url, writer=name) for name in ("w", "v"))
    one.create_table("t", journal="writer").append([{"id": 1, "a": 1}])
    other.table("t").append([{"id": 2, "a": 2}])
    one.table("t").alter(rename={"a": "b"}, drop="id", add={"c": ("BIGINT", 5)})
    other.table("t").append([{"b": 3}])
    for info in one.bucket.list("w/").objects:
        one.bucket.delete(info.key)
    left = firn.connect(url).table("t")
    assert rows(left) == [{"b": 2, "c": 5}, {"b": 3, "c": 5}]
    assert left.definition().version.startswith("v=")


def test_what_became_another_columns_goes_and_comes_with_it(create: Create) -> None:
    table = create()
    table.append([{"id": 1, "price": 5}])
    table.append([{"id": 2, "prise": 5.5}])
    before = table.version
    table.resolve("prise", into="price", to="DOUBLE")
    together = table.version
    assert [row["price"] for row in rows(table)] == [5.0, 5.5]
    table.alter(rename={"price": "cost"})
    assert table.scan(where="cost = 5.5").count() == table.scan(where="cost > 5").count() == 1
    table.delete("cost = 5")
    table.append([{"id": 3, "cost": 7.5}])
    table.merge()
    assert rows(table) == [{"id": 2, "cost": 5.5}, {"id": 3, "cost": 7.5}]
    table.alter(drop="cost")
    assert rows(table) == [{"id": 2}, {"id": 3}]
    table.restore(together)
    assert rows(table) == [{"id": 1, "price": 5.0}, {"id": 2, "price": 5.5}]
    assert rows(table, at=before) == [
        {"id": 1, "price": 5, "prise": None},
        {"id": 2, "price": None, "prise": 5.5},
    ]


def test_what_became_another_columns_stays_when_files_are_carried_on(create: Create) -> None:
    table = create(partition_by=["id"])
    table.append([{"id": 1, "price": 5}])
    table.append([{"id": 2, "prise": 5.5}])
    table.resolve("prise", into="price", to="DOUBLE")
    for _ in range(3):
        table.append([{"id": 1, "price": 6}])
        table.merge()
        table.sweep(older_than="0s", orphans="0s")
        assert [row["price"] for row in rows(table, where="id = 2 and price = 5.5")] == [5.5]
    assert list(table.snapshot().columns) == ["id", "price"]


def test_a_column_that_became_anothers_makes_room_for_a_new_one(create: Create) -> None:
    table = create()
    table.append([{"id": 1, "price": 5, "prise": None}, {"id": 2, "price": None, "prise": 6}])
    table.resolve("prise", into="price")
    table.append([{"id": 3, "prise": 7}])  # by somebody who doesn't know
    table.alter(add={"prise": ("VARCHAR", "none")})
    table.append([{"id": 4, "price": 8, "prise": "first"}])
    assert [(row["price"], row["prise"]) for row in rows(table)] == [
        (5, "none"),
        (6, "none"),
        (7, "none"),
        (8, "first"),
    ]
