"""DuckDB with extensions, in a virtual environment of its own.

Registries have the extensions as packages, each for one version of DuckDB, which isn't the one that Firn runs on.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

DUCKDB = "1.5.5"

LOAD = """
def load(duck, name):
    import importlib.util
    package = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations[0]
    duck.execute(f"LOAD '{package}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
"""
"""A function for programs of that environment; connect with `allow_unsigned_extensions`."""


def python_with(root: Path, extensions: Sequence[str], packages: Sequence[str] = ()) -> Path:
    """The interpreter of an environment below `root` that has these, made on first use."""
    python, made = root / "bin" / "python", root / ".made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", root], check=True)
        names = [
            f"duckdb=={DUCKDB}",
            *(f"duckdb-extension-{name}=={DUCKDB}" for name in extensions),
            *packages,
        ]
        subprocess.run([python, "-m", "pip", "install", "-q", *names], check=True)
        made.touch()
    return python
