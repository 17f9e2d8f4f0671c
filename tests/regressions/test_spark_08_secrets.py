"""`db.options` and the options of the data source showed secrets where they were printed."""

from __future__ import annotations

import firn
from firn.spark.session.options import SourceOptions


def test_options_are_shown_without_their_secrets():
    secret = "hunter2hunter2"
    options = {"aws_access_key_id": "AKIA", "aws_secret_access_key": secret, "aws_region": "eu-north-1"}
    db = firn.connect("s3://bucket/db", options=options)
    assert secret not in f"{db.options} {db.options!r}" and "eu-north-1" in repr(db.options)
    assert db.options["aws_secret_access_key"] == secret
    given = {"path": "s3://bucket/db/t", "store.aws_secret_access_key": secret}
    assert secret not in repr(SourceOptions.parse(given, lambda url: ("s3://bucket/db", "t")))
