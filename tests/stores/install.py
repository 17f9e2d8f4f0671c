"""Build the real stores into `.cache/`: versitygw where Go is there, Azurite where npm is.

python tests/stores/install.py && pytest -m stores
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
VERSITYGW = CACHE / "bin" / "versitygw"
AZURITE = CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob"


def _install(target: Path, tool: str, command: list[str], **environment: str) -> bool:
    if target.exists():
        return True
    program = shutil.which(tool)
    if program is None:
        sys.stderr.write(f"{target.name} needs {tool}, which is not on the PATH\n")
        return False
    CACHE.mkdir(exist_ok=True)
    subprocess.run([program, *command], check=True, env={**os.environ, **environment})
    return target.exists()


def install() -> bool:
    """True if both are there afterwards."""
    versitygw = _install(
        VERSITYGW,
        "go",
        ["install", "github.com/versity/versitygw/cmd/versitygw@latest"],
        GOBIN=str(VERSITYGW.parent),
    )
    azurite = _install(
        AZURITE, "npm", ["install", "--no-audit", "--no-fund", "--prefix", str(CACHE / "azurite"), "azurite"]
    )
    return versitygw and azurite


if __name__ == "__main__":
    sys.exit(0 if install() else 1)
