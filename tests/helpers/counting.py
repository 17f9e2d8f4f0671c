"""Clients that add one to the number in the object `n`: losing each other's updates, and not."""

from __future__ import annotations

from firn.errors import ObjectChangedError
from firn.testing import SimClient


def count_once(client: SimClient) -> None:
    seen = client.bucket.get("n")
    client.bucket.put("n", b"%d" % (int(seen.data) + 1))


def count_by_swapping(client: SimClient) -> None:
    while True:
        seen = client.bucket.get("n")
        try:
            client.bucket.put_if_match("n", b"%d" % (int(seen.data) + 1), seen.info.etag)
        except ObjectChangedError:
            continue
        return
