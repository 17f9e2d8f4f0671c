"""TPC-H lineitem as Parquet files that every engine reads alike, made once a scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PARTS = 20
SMALL_ROWS = 10
WHOLE_FILES = 2


@dataclass(frozen=True)
class Lineitem:
    """`whole` holds all rows in two files; `parts` the same rows in twenty; `small` ten rows in each of twenty."""

    rows: int
    whole: Path
    parts: tuple[Path, ...]
    small: tuple[Path, ...]


def lineitem(scale: float, cache: Path) -> Lineitem:
    """The files for a scale factor (1 is 6 million rows), generated where they aren't there yet."""
    place = cache / f"lineitem-sf{scale:g}"
    if not (place / "done").exists():
        shutil.rmtree(place, ignore_errors=True)
        _generate(scale, place)
        (place / "done").touch()
    files = [place / "parts" / f"{n:02}.parquet" for n in range(PARTS)]
    small = [place / "small" / f"{n:02}.parquet" for n in range(PARTS)]
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    return Lineitem(rows, place / "whole", tuple(files), tuple(small))


def _generate(scale: float, place: Path) -> None:
    raw = place / "raw"
    raw.mkdir(parents=True)
    program = Path(sys.executable).with_name("tpchgen-cli")
    command: list[str | Path] = [
        program,
        "parquet",
        "-s",
        f"{scale:g}",
        "--tables",
        "lineitem",
        "--output-dir",
        raw,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    table = plain(pq.read_table(next(raw.rglob("*.parquet"))))
    _split(table, place / "whole", WHOLE_FILES)
    _split(table, place / "parts", PARTS)
    small = [table.slice(n * SMALL_ROWS, SMALL_ROWS) for n in range(PARTS)]
    _write(place / "small", small)
    shutil.rmtree(raw)


def plain(table: pa.Table) -> pa.Table:
    """Spark reads the Arrow schema in a file's metadata, and doesn't know views."""
    views = (pa.string_view(), pa.binary_view())
    plain_types = [
        pa.string() if f.type in views[:1] else pa.binary() if f.type in views else f.type
        for f in table.schema
    ]
    schema = pa.schema(
        [f.with_type(t).with_nullable(True) for f, t in zip(table.schema, plain_types, strict=True)]
    )
    return table.cast(schema)


def _split(table: pa.Table, directory: Path, files: int) -> None:
    step = -(-table.num_rows // files)
    _write(directory, [table.slice(n * step, step) for n in range(files)])


def _write(directory: Path, tables: list[pa.Table]) -> None:
    directory.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, directory / f"{number:02}.parquet")
