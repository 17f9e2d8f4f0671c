"""Programs that these tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
SPARK_CONF = Path(__file__).parents[1] / "spark/conf"


def run_python(*arguments: str, cwd: Path, spark: bool = False) -> subprocess.CompletedProcess[str]:
    """Python with this Firn and warnings as errors; but for `spark`, whose own Python warns of itself."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    if spark:
        environment["SPARK_CONF_DIR"] = str(SPARK_CONF)
    else:
        environment["PYTHONWARNINGS"] = "error"
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
