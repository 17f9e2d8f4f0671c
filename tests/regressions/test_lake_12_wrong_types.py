"""Arguments of the wrong type raised TypeError and AttributeError, and `columns="si"` read the columns s and i."""

from __future__ import annotations

import inspect

import pytest

import firn
from firn.errors import FirnError, InvalidInputError

WRONG = [5, None, [5], object(), b"x", {"a": object()}, -1.5, True, ""]
PLACES = {"runner", "spark", "lock", "options", "work"}
"""Arguments that take objects of Python's: nothing can be told before they are used."""
INTERNAL = {
    "sst",
    "sources",
    "beside",
    "founded",
    "found",
    "load_rows",
    "partitions_of",
    "read_spec",
}
INTERNAL |= {
    "as_in",
    "altered_by",
    "write_spec",
    "ssts",
    "landed",
    "admit",
    "put_bodies",
    "insert_first",
    "to_spark",
    "sql",
}
"""Methods for engines, and those that start Spark."""


def lake():
    table = firn.connect("memory://").create_table("t", partition_by=["s"])
    table.append([{"s": "a", "i": 1}])
    return table


def keyed_lake():
    table = firn.connect("memory://").create_table("t", key=["i"])
    table.upsert([{"s": "a", "i": 1}])
    return table


def writers():
    table = firn.connect("memory://", writer="w").create_table("t", journal="writer")
    table.append([{"s": "a", "i": 1}])
    return table


def keyed():
    return firn.connect("memory://").create_table("t", kind="keyed")


def records():
    table = firn.connect("memory://").create_table("t", kind="records")
    table.insert("a", {"i": 1})
    return table


def rows():
    table = firn.connect("memory://").create_table("t", kind="records", isolation="row")
    table.insert("a", {"i": 1})
    return table


def database():
    return firn.connect("memory://", writer="w")


def scan():
    return lake().scan()


def transaction():
    db = firn.connect("memory://")
    db.create_table("t", kind="records").insert("a", {"i": 1})
    return db.begin()


def keyed_writer():
    return keyed().open(compaction=False)


def keyed_reader():
    return keyed().reader()


MAKERS = [
    lake,
    keyed_lake,
    writers,
    keyed,
    records,
    rows,
    database,
    scan,
    transaction,
    keyed_writer,
    keyed_reader,
]


def verbs(thing):
    for name in dir(type(thing)):
        if name.startswith("_") or name in INTERNAL or name == "aio":
            continue
        method = inspect.getattr_static(type(thing), name)
        if inspect.isfunction(method):
            yield name, list(inspect.signature(method).parameters.values())[1:]


GOOD = {
    "where": "i = 1",
    "query": "true",
    "at": "2099-01-01",
    "set": {"s": "'b'"},
    "data": [{"s": "b", "i": 2}],
}
GOOD |= {
    "paths": "x",
    "name": "t",
    "id": "a",
    "document": {"i": 2},
    "keep": "ab",
    "url": "memory://",
    "field": "i",
}
GOOD |= {
    "rows": [{"_id": "b", "i": 1}],
    "statement": "SELECT 1",
    "older_than": "1d",
    "source": "t",
    "target": "t",
}


def call(thing, name, given):
    found = getattr(thing, name)(**given)
    if name == "scan":
        found = list(found) if not isinstance(found, firn.Scan) else found.to_arrow()
    if inspect.isgenerator(found):
        list(found)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_every_verb_refuses_what_it_cant_take(make):
    thing = make()
    for name, parameters in verbs(thing):
        if any(p.kind == p.POSITIONAL_ONLY and p.default is p.empty for p in parameters):
            continue
        keywords = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        for parameter in keywords:
            if parameter.name in PLACES:
                continue
            for wrong in WRONG:
                given = {p.name: GOOD[p.name] for p in keywords if p.default is p.empty and p.name in GOOD}
                if name == "keep":  # which ends by itself only then
                    given["once"] = True
                given[parameter.name] = wrong
                if name == "keep" and not given["once"]:
                    continue
                if any(p.default is p.empty and p.name not in given for p in keywords):
                    continue
                try:
                    call(thing, name, given)
                except FirnError:
                    continue
                except Exception as error:
                    pytest.fail(f"{type(thing).__name__}.{name}({given!r}): {error!r}")


@pytest.mark.parametrize("wrong", [5, None, [5], b"x"])
def test_sql_takes_text(wrong):
    with pytest.raises(InvalidInputError, match="it must be a text"):
        database().sql(wrong)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (lambda t: t.scan(where=5), "scan: where is 5; it must be a text or None."),
        (lambda t: t.scan(columns="si"), "scan: columns is 'si'; it must be a list of texts or None."),
        (lambda t: t.scan(columns=[5]), "scan: columns is [5]; it must be a list of texts or None."),
        (lambda t: t.delete(None), "delete: where is None; it must be a text."),
        (lambda t: t.register(5), "register: paths is 5; it must be a text or a list of texts."),
        (
            lambda t: t.snapshot(1.5),
            "snapshot: at is 1.5; it must be a text, a whole number, a datetime or None.",
        ),
        (lambda t: t.merge(dry_run="no"), "merge: dry_run is 'no'; it must be True or False."),
    ],
)
def test_the_error_names_argument_and_types(verb, said):
    with pytest.raises(InvalidInputError) as raised:
        verb(lake())
    assert str(raised.value) == said
