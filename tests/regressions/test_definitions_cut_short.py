"""A definition of which half was answered was taken for a damaged one."""

from __future__ import annotations

from dataclasses import replace

from firn.journal.definition import read_object
from firn.testing import SimStore


def test_it_is_read_again(monkeypatch):
    bucket = SimStore().bucket()
    bucket.put("t/_firn/table.json", b"whole")
    get, answers = bucket.get, []

    def half(key):
        blob = get(key)
        answers.append(key)
        return replace(blob, data=blob.data[:2]) if len(answers) == 1 else blob

    monkeypatch.setattr(bucket, "get", half)
    assert read_object(bucket, "t", lambda data, where: data, clock=bucket.clock) == b"whole"
    assert len(answers) == 2
    assert read_object(bucket, "other", lambda data, where: data, clock=bucket.clock) is None
