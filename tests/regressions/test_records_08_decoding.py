"""A serializable commit decoded each write of others once for each predicate that it had read by."""

from __future__ import annotations

import pytest

import firn
from firn.records.documents.documents import Documents


@pytest.mark.parametrize("predicates", [1, 40])
def test_a_write_is_decoded_once_however_many_predicates_there_are(predicates, monkeypatch):
    db = firn.connect("memory://")
    table = db.create_table("d", kind="records", indices=["shift"])
    tx = db.begin(serializable=True)
    for n in range(predicates):
        tx.find("d", shift=f"none {n}")
    tx.upsert("d", "mine", {"shift": "mine"})
    with db.begin() as other:
        for n in range(30):
            other.upsert("d", f"r{n}", {"shift": f"s{n}"})
    decoded = []
    decode = Documents.decode
    monkeypatch.setattr(
        Documents, "decode", lambda self, body, *id: decoded.append(body) or decode(self, body, *id)
    )
    tx.commit()
    assert len([body for body in decoded if b'"mine"' not in body]) == 30
    assert table.count() == 31
