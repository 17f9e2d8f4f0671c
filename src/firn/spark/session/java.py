"""Find a Java that Spark can run on.

Spark needs Java 17 or later with the module `jdk.incubator.vector`, which some stripped-down JREs lack; both
are asked of each candidate by starting it, about 50 ms a question.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from firn.errors import UnsupportedError

MINIMUM_JAVA = 17

_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/current",
)


def find_java() -> str:
    """A Java home that Spark can use: JAVA_HOME, the `java` on the PATH, then the usual places.

    Raises `UnsupportedError` that says what to install where there is none.
    """
    rejected: list[str] = []
    for home in _candidates():
        reason = _unfit(home)
        if reason is None:
            return str(home)
        rejected.append(f"{home} {reason}")
    found = f" (found: {'; '.join(rejected)})" if rejected else ""
    raise UnsupportedError(
        f"Spark needs Java {MINIMUM_JAVA} or later and none was found{found}: install one, for example "
        "'apt-get install openjdk-17-jre-headless' or 'brew install openjdk@17', or set JAVA_HOME"
    )


def _candidates() -> Iterator[Path]:
    seen: set[Path] = set()
    for home in _homes():
        real = home.resolve()
        if real not in seen and (home / "bin" / "java").exists():
            seen.add(real)
            yield home


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        # /usr/bin/java is a link into the home on Debian, but a stub that isn't one on macOS.
        yield Path(on_path).resolve().parent.parent
    for pattern in _PLACES:
        yield from (Path(home) for home in sorted(glob.glob(os.path.expanduser(pattern))))


def _unfit(home: Path) -> str | None:
    """Why Spark can't use this Java, or None if it can."""
    command = [str(home / "bin" / "java"), "-XshowSettings:properties", "-version"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({error})"
    match = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", shown.stderr)
    if match is None:
        return "does not tell its version"
    if int(match[1]) < MINIMUM_JAVA:
        return f"is Java {match[1]}"
    if not _has_vector_module(home):
        return "lacks the module jdk.incubator.vector"
    return None


def _has_vector_module(home: Path) -> bool:
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
