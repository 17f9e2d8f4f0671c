"""Every verb that reads, or whose error tells something, in transactions that go on after it and write; what the
log must explain, and what the checker of histories judges that knows no log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from firn.errors import DuplicateKeyError, FirnError, NoSuchKeyError
from firn.records.documents.predicates import Range
from simulation.records_model import Found, Look, matching

TABLE = "moved"
IDS = tuple(f"user{n}" for n in range(4))


def each_verb(session: Any) -> None:
    """Some looks, each by a verb that is drawn, and then some writes."""
    for _ in range(session.random.randint(1, 3)):
        session.random.choice(LOOKS)(session)
        if session.random.random() < 0.3:
            session.think()
    for _ in range(session.random.randint(0, 2)):
        session.random.choice(WRITES)(session)


def entries(session: Any) -> None:
    """Append to lists whose elements are rows, and read them in order, in pages or by their number alone."""
    for name in session.random.sample(("e0", "e1"), session.random.randint(1, 2)):
        if session.random.random() < 0.4:
            length = session.tx.count("entries", list=name)
            session.recording.count(name, length)
        else:
            values = _elements(session, name)
            session.recording.read(name, values)
            length = len(values)
        session.think()
        if session.random.random() < 0.5:
            element = session.clients.model.element()
            session.insert("entries", f"{name}-{length}", {"list": name, "at": length, "element": element})
            session.recording.append(name, element)


def _elements(session: Any, name: str) -> list[int]:
    """By an order, at once or in pages."""
    verb = session.random.choice([session.tx.find, session.tx.scan])
    if session.random.random() < 0.5:
        return [row["element"] for row in verb("entries", {"list": name}, order_by="at")]
    rows = page = verb("entries", {"list": name}, order_by="at", limit=3)
    while page:
        page = verb("entries", {"list": name}, order_by="at", limit=3, after=rows[-1])
        rows = [*rows, *page]
    return [row["element"] for row in rows]


def _get(session: Any) -> None:
    session.get(TABLE, session.random.choice(IDS))


def _get_many(session: Any) -> None:
    ids = session.random.sample(IDS, 2)
    found = {id: row.document for id, row in session.tx.get_many(TABLE, ids).items()}
    session.looked(TABLE, ids, lambda rows: {id: rows[id] for id in ids if id in rows}, found)


def _find(session: Any) -> None:
    session.find(TABLE, n=session.random.randrange(3))


def _scan(session: Any) -> None:
    session.scan(TABLE, **session.random.choice([{}, {"n": 1}]))


def _stream(session: Any) -> None:
    """All rows, with other verbs between the first of them and the others."""
    own = {id: document for (name, id), document in session.observed.writes.items() if name == TABLE}
    where, snapshot = session.random.choice([{}, {"n": 1}]), session.tx.snapshot
    rows = session.tx.stream(TABLE, where)
    found = [row for _, row in zip(range(1), rows, strict=False)]
    for verb in session.random.choices([_get, _find, _count, _insert, _upsert, _delete_if_there], k=2):
        verb(session)
    found += rows
    answer = {row.id: row.document for row in found}
    assert len(answer) == len(found), "a stream gave a row twice"
    session.observed.looks.append(
        Look(snapshot, TABLE, f"stream {where}", partial(matching, where=where), answer, own)
    )


def _count(session: Any) -> None:
    where = session.random.choice([{}, {"n": 0}, {"n": 1}, {"n": Range(1)}])
    session.looked(
        TABLE, f"count {where}", lambda rows: len(matching(rows, where)), session.tx.count(TABLE, where)
    )


def _page(session: Any) -> None:
    """A part of what matches, in an order."""
    order = session.random.choice([None, "n", "n desc"])
    limit = session.random.choice([1, 2])
    after = session.random.choice([None, "user1"]) if order is None else None
    where = session.random.choice([{"n": Range(1)}, {"n": 1}])
    verb = session.random.choice([session.tx.find, session.tx.scan])

    def ask(rows: Found) -> Any:
        down = -1 if order == "n desc" else 1
        found = [(0 if order is None else down * row["n"], id) for id, row in matching(rows, where).items()]
        return [id for _, id in sorted(found) if after is None or id > after][:limit]

    rows = verb(TABLE, where, order_by=order, limit=limit, after=after)
    session.looked(TABLE, f"page {where} by {order}", ask, [row.id for row in rows])


def _insert(session: Any) -> None:
    id = session.random.choice(IDS)
    _refused(session, id, DuplicateKeyError, lambda document: session.insert(TABLE, id, document))


def _update(session: Any) -> None:
    id = session.random.choice(IDS)
    _refused(session, id, NoSuchKeyError, lambda document: session.update(TABLE, id, document))


def _delete(session: Any) -> None:
    id = session.random.choice(IDS)
    _refused(session, id, NoSuchKeyError, lambda document: session.delete(TABLE, id))


def _delete_if_there(session: Any) -> None:
    id = session.random.choice(IDS)
    session.tx.delete(TABLE, id, etag="")
    if session.tx._writes.get((TABLE, id)) is None:
        _tells(session, id, False)
    else:
        session.observed.writes[TABLE, id] = None


def _upsert(session: Any) -> None:
    session.upsert(TABLE, session.random.choice(IDS), _document(session))


def _insert_many(session: Any) -> None:
    rows = {id: _document(session) for id in session.random.sample(IDS, 2)}
    try:
        session.tx.insert_many(TABLE, rows)
    except DuplicateKeyError:
        latest = session.tx._store.log.head().number
        session.looked(
            TABLE, f"refusal of {[*rows]}", lambda there: bool(rows.keys() & there), True, latest=latest
        )
    else:
        session.observed.writes.update({(TABLE, id): document for id, document in rows.items()})


def _delete_many(session: Any) -> None:
    ids = session.random.sample(IDS, 2)
    gone = session.tx.delete_many(TABLE, ids)
    session.looked(TABLE, f"delete {ids}", lambda rows: [id for id in ids if id in rows], gone)
    session.observed.writes.update({(TABLE, id): None for id in gone})


def _refused(
    session: Any, id: str, refusal: type[FirnError], write: Callable[[dict[str, Any]], object]
) -> None:
    """A write whose refusal tells whether the row is there."""
    try:
        write(_document(session))
    except refusal:
        _tells(session, id, refusal is DuplicateKeyError)
        session.clients.model.happened[f"refused: {refusal.kind}"] += 1


def _tells(session: Any, id: str, there: bool) -> None:
    latest = session.tx._store.log.head().number if there else 0
    session.looked(TABLE, f"refusal of {id}", lambda rows: id in rows, there, latest=latest)


def _document(session: Any) -> dict[str, Any]:
    return {"n": session.random.randrange(3), "by": session.tx.txid}


LOOKS = (
    _get,
    _get_many,
    _find,
    _scan,
    _count,
    _count,
    _page,
    _page,
    _stream,
    _insert,
    _insert,
    _update,
    _delete_if_there,
)
WRITES = (_insert, _insert_many, _update, _delete, _delete, _delete_many, _upsert, _upsert, _upsert)
