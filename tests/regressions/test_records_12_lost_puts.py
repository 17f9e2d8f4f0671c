"""In a directory, a put that had lost before it was sent wrote and synced its body all the same."""

from __future__ import annotations

import pytest

from firn.bucket import open_bucket
from firn.bucket.staging import Staging
from firn.errors import ObjectExistsError


def test_a_put_of_what_is_there_writes_nothing(tmp_path, monkeypatch):
    bucket = open_bucket(str(tmp_path))
    bucket.put_if_absent("a/1", b"first")
    written = []
    write = Staging.write
    monkeypatch.setattr(Staging, "write", lambda self, data: written.append(data) or write(self, data))
    with pytest.raises(ObjectExistsError, match="exists already"):
        bucket.put_if_absent("a/1", b"second")
    assert written == []
    assert bucket.get("a/1").data == b"first"
    bucket.put_if_absent("a/2", b"third")
    assert written == [b"third"]
