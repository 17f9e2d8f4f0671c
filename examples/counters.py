"""Count events by key with a merge operator, and let a second writer take over from the first.

python examples/counters.py [DATABASE]
"""

from __future__ import annotations

import contextlib
import sys
import tempfile

import firn
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.writer import KeyedWriter

EVENTS = [("north", 3), ("south", 5), ("north", 4), ("east", 1), ("south", -2), ("north", 9)]


def count(kv: KeyedWriter, number: int) -> None:
    """One event, and the place in the input up to which events are counted: both, or neither."""
    place, amount = EVENTS[number]
    batch = WriteBatch()
    batch.merge(place, {"events": 1, "total": amount})
    batch.put("_next", {"total": number + 1})
    kv.write(batch)


def main(url: str) -> None:
    counters = firn.connect(url).create_table(
        "counters",
        kind="keyed",
        key={"place": "VARCHAR"},
        schema={"events": "BIGINT", "total": "BIGINT"},
        merge_operator="add",
        properties={"flush_ms": 10},
    )
    first = counters.open()
    for number in range(3):
        count(first, number)

    # Somebody believes that the first writer is dead, and starts another.
    with counters.open() as second:
        try:
            count(first, 3)
            raise AssertionError("a writer that goes on after another has opened must be fenced")
        except firn.FencedError as error:
            print(f"the first writer was told: {error}")
        # The second goes on from where the first one was acknowledged, whatever that one still believed.
        for number in range(second.get("_next")["total"], len(EVENTS)):
            count(second, number)
    with contextlib.suppress(firn.FencedError):
        first.close()

    with counters.reader() as reader:
        found = {place: row["total"] for place, row in reader.scan() if place != "_next"}
    print(found)
    assert found == {"north": 16, "south": 3, "east": 1}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
