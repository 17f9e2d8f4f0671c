"""Record tables that each version wrote, committed to the repository, read and changed by this one."""

from __future__ import annotations

import json

import pytest
from make_golden import GOLDEN
from make_golden_records import ALTERED, CATALOG, EACH, MANY, make, open_golden, read

import firn
from firn.bucket import open_bucket

VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/records.json"))


def golden(version):
    return open_golden(GOLDEN / version / "records.json")


def test_this_version_has_its_record_tables():
    assert firn.__version__ in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_they_read_as_what_went_in(version):
    url, expected = golden(version)
    assert read(url) == expected
    assert expected["rows"]["people"]["ada"] == {"city": "Ockham", "email": "ada@example.com", "n": 2}
    assert expected["commits"][-1] == [len(expected["commits"]), [["people", "dee", False]]]


@pytest.mark.parametrize("version", VERSIONS)
def test_they_can_be_changed_and_swept(version):
    url, expected = golden(version)
    db = firn.connect(url)
    etag = expected["etags"]["ada"]
    with db.begin(lock=True) as tx:
        tx.update("people", "ada", {"city": "Oslo", "email": "ada@example.com"}, etag=etag)
        tx.insert("people", "bob/2", {"city": "Oslo"})
    people = db.table("people")
    with pytest.raises(firn.DuplicateKeyError):
        people.insert("eve", {"email": "dee@example.com"})
    people.create_index("tags.none")
    people.sweep("0s", "0s")
    ids = sorted([*expected["finds"]["city=Oslo"], "ada", "bob/2"])
    assert sorted(row.id for row in people.find(city="Oslo")) == ids
    visits = db.table("visits")
    visits.update("page", {"n": 3}, etag=visits.get("page").etag)
    db.drop_table("people")
    assert list(db.create_table("people", kind="records").scan()) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_they_have_objects_of_all_kinds(version):
    def kinds(url):
        return {
            info.key.rpartition("/")[0].partition("/indices")[0]
            for info in open_bucket(url).list("").objects
            if not info.key.startswith(("many", "tagged", "changed", "judged", "alone"))
        }

    assert kinds(golden(version)[0]) == {
        *("_commits", "_firn", "_firn/bodies", "_firn/packs"),
        *("people", "people/_firn", "people/data~1"),
        *("typed", "typed/_firn", "typed/data"),
        *("visits/_firn", "visits/data"),
    }


def test_records_refer_to_a_large_catalog_and_the_horizon_has_it():
    bucket = open_bucket(golden(CATALOG)[0])
    objects = {
        info.key: json.loads(bucket.get(info.key).data) for info in bucket.list("_").objects if info.size
    }
    records = [object for key, object in objects.items() if key.startswith("_commits/")]
    refers = [record for record in records if isinstance(record["catalog"], int)]
    assert len(refers) > 2
    assert {tuple(record["features"]) for record in refers} == {("catalog",)}
    assert objects["_firn/horizon"]["features"] == ["catalog"]
    assert len(objects["_firn/horizon"]["catalog"]) >= MANY
    (pack,) = (object for key, object in objects.items() if key.startswith("_firn/packs/"))
    assert pack["features"] == ["catalog"]


def test_rows_are_found_by_elements_and_all_that_tells_of_them_needs_the_feature():
    url, expected = golden(EACH)
    finds = expected["finds"]
    assert finds["tagged sea"] == ["row 1", *(f"row {n}" for n in range(3, 8))]
    assert finds["tagged True"] == ["row 7"] and finds["key one"] == ["row 1"]
    assert (
        expected["indices"]["tagged"]["keys"][0] is True and "each" in expected["indices"]["tagged"]["keys"]
    )
    bucket = open_bucket(url)
    keys = [
        info.key for info in bucket.list("").objects if info.key.startswith(("_commits/", "_firn/packs/"))
    ]
    features = {
        key: json.loads(bucket.get(key).data)["features"] for key in [*keys, "tagged/_firn/table.json"]
    }
    assert len(features) > 3 and set(map(tuple, features.values())) == {("each",)}
    tagged = firn.connect(url).table("tagged")
    tagged.update("row 7", {"tags": ["sun"], "keys": []})
    assert [row.id for row in tagged.find(tags=firn.Contains("sun"))] == ["row 7"]
    with pytest.raises(firn.DuplicateKeyError):
        tagged.insert("new", {"keys": ["new", "one"]})


def test_rows_of_all_definitions_are_read_and_all_that_tells_of_them_needs_the_feature():
    url, expected = golden(ALTERED)
    rows = {
        "before": {"n": "1.00", "x": "2026-01-31", "new": None},
        "after": {"n": "1.50", "x": "?", "new": [1]},
    }
    assert expected["altered"] == {"changed": rows, "alone": rows, "judged": {}}
    bucket, db = open_bucket(url), firn.connect(url)
    keys = [
        info.key for info in bucket.list("_").objects if info.key.startswith(("_commits/", "_firn/packs/"))
    ]
    features = {
        key: json.loads(bucket.get(key).data)["features"] for key in [*keys, "alone/_firn/table.json"]
    }
    assert len(features) > 3 and set(map(tuple, features.values())) == {("definition",)}
    with pytest.raises(firn.InvalidInputError, match="'n' is a required property"):
        db.table("judged").insert("a", {})
    for name in ("changed", "alone"):
        table = db.table(name)
        with pytest.raises(firn.InvalidInputError, match="had a column 'old'"):
            table.alter(add={"old": "DATE"})
        table.alter(add={"old": "VARCHAR"})
        assert [row["old"] for row in table.scan()] == [None, "gone"]


@pytest.mark.parametrize("options", [{}, {"many": MANY}, {"each": True}, {"altered": True}], ids=str)
def test_a_golden_database_can_be_made(options, tmp_path):
    make(tmp_path / "records.json", **options)
    url, expected = open_golden(tmp_path / "records.json")
    assert read(url) == expected
