"""Queries in this process over every kind of bucket: the same rows, and no request but those they need."""

from __future__ import annotations

import random

import pyarrow as pa

import firn
from stores.places import Place

ROWS = 200_000


def test_queries(place: Place) -> None:
    db = firn.connect(f"{place.url}/db", options=place.options, writer="w1")
    rng = random.Random(1)
    noise = [rng.random() for _ in range(ROWS)]
    large = db.create_table("large", sort_by=["k"])
    large.append(pa.table({"k": range(ROWS), "a": noise, "b": noise[::-1]}))
    small = db.create_table("small", partition_by=["s"], journal="writer")
    for n in range(4):
        small.append([{"k": n, "s": "é /'?#%*[x]"}, {"k": -n - 1, "s": "plain"}])
    small.delete("k = 1", soft=True)
    db.close()  # what it does in the background has ended
    db = firn.connect(f"{place.url}/db", options=place.options)
    result = db.sql(
        "SELECT k, s, round(a + b, 6) AS ab FROM large JOIN small USING (k) WHERE s <> 'plain' ORDER BY k"
    )
    place.seen.clear()
    found = list(result)
    assert [(row["k"], row["s"]) for row in found] == [(k, "é /'?#%*[x]") for k in (0, 2, 3)]
    assert found[1]["ab"] == round(noise[2] + noise[-3], 6)
    mine = f"/{place.url.rpartition('/')[2]}/"  # the server has other tests' buckets, too
    if asked := [request for request in place.seen if mine in request]:
        assert {request.partition(" ")[0] for request in asked} == {"GET"}, asked
        assert not any("list-type" in request for request in asked)
        assert len(asked) <= 4 + 2  # a small file each, and of the large one its footer and its columns
    assert result.count() == 3
