"""One of the processes of `small_appends`: waits for the start, appends, prints how many of its appends failed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.small_appends import appender


def main(engine: str, place: str, each: str, number: str, go: str) -> None:
    append = appender(engine, Path(place))
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.001)
    failed, errors = 0, set()
    for turn in range(int(each)):
        try:
            append(int(number) * 1_000_000 + turn)
        except Exception as error:
            failed += 1
            errors.add(f"{type(error).__name__}: {str(error)[:60]}")
    print(json.dumps({"failed": failed, "errors": sorted(errors)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
