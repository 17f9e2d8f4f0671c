"""`firn demo`: where it runs, and what to do about an earlier one."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.app import START, app
from firn.cli.opening import store_options
from firn.cli.options import argument, flag
from firn.cli.target import Json, StoreOptions
from firn.cli.terminal import output
from firn.errors import InvalidInputError, ObjectNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from firn.bucket.base import Bucket

MARKER = "_firn/demo.json"


@app.command(rich_help_panel=START)
def demo(
    directory: Annotated[
        str, argument("[DIR]", "Where its tables go: a directory, or a bucket's URL.")
    ] = "./demo-db",
    fresh: Annotated[bool, flag("Delete an earlier demo there, and start over.", "--fresh")] = False,
    keep: Annotated[bool, flag("Keep an earlier demo, and use DIR-2, DIR-3, …", "--keep")] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Show all of Firn on real data: appends, Spark, merge, time travel, erasure, keyed tables, transactions.

    The tables stay for you to play with. An earlier demo's directory is replaced only with --fresh, or if you
    say so; a directory that isn't a demo's is left alone.
    """
    from firn.cli.demo.stage import Stage
    from firn.cli.demo.story import tell, what_next

    if fresh and keep:
        raise InvalidInputError("choose one of --fresh and --keep.")
    _check_spark()
    started = time.monotonic()
    given = store_options(options)
    stage = Stage(prepare(directory, given, fresh=fresh, keep=keep), given, quiet=json)
    stage.title(f"A database in {stage.url}: nothing but files in a directory, or objects in a bucket")
    report, commands = tell(stage), what_next(stage.url)
    seconds = round(time.monotonic() - started, 1)
    if json:
        facts = {"seconds": seconds, "steps": stage.facts, "try_next": commands}
        output.document({"database": stage.url, "report": report, **facts})
        return
    same = " (with the same --option)" if given else ""
    stage.title(f"\nDone in {seconds:.0f} s. The tables are yours; try{same}:")
    for command in commands:
        stage.quote(command, wrap=False)


def _check_spark() -> None:
    """Before the first step: the second one needs it. `UnsupportedError` says what is missing."""
    if find_spec("pyspark") is None:
        raise UnsupportedError("the demo needs Spark, which isn't installed: pip install 'firn[spark]'")
    from firn.spark.session.java import find_java

    find_java()


def prepare(url: str, options: dict[str, object], *, fresh: bool, keep: bool) -> str:
    """An empty place for the demo, with its mark on it; its URL.

    Raises:
        InvalidInputError: something that isn't a demo is there.
    """
    from firn.bucket import open_bucket, split_url
    from firn.bucket.keys import key_below

    candidate, number = url, 1
    while True:
        root, prefix = split_url(candidate)
        bucket = open_bucket(root, options=options)
        if not bucket.capabilities.shareable:
            raise InvalidInputError(
                f"{url} lives in one process only, and the demo needs several: name a directory."
            )
        marker = key_below(prefix, MARKER)
        there = [info.key for info in bucket.list(key_below(prefix, "")).objects]
        if there and not _is_demo(bucket, marker):
            raise InvalidInputError(
                f"{candidate} isn't empty, and not an earlier demo's: name another directory, like "
                f"`firn demo {candidate.rstrip('/')}-demo`."
            )
        if there and not keep and (fresh or _start_over(candidate)):
            # The mark last: an interrupted start stays a demo's.
            bucket.delete_many([key for key in there if key != marker])
            there = []
        if not there:
            bucket.put(marker, b'{"firn": 1, "demo": true}')
            return candidate
        number += 1
        candidate = f"{url.rstrip('/')}-{number}"


def _is_demo(bucket: Bucket, key: str) -> bool:
    try:
        return b'"demo"' in bucket.get(key).data
    except ObjectNotFoundError:
        return False


def _start_over(url: str) -> bool:
    """Ask, where there is somebody to ask; otherwise an earlier demo is kept."""
    if output.stderr().is_terminal and output.stdin_is_terminal():
        return typer.confirm(f"{url} holds an earlier demo. Delete it and start over?", err=True)
    output.note(f"{url} holds an earlier demo, and is kept (--fresh would replace it).")
    return False
