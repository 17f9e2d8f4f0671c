"""Build ./site of the pages that a code host shows.

    python scripts/build_site.py

The pages are copied as they lie here, so that links between them lead where they lead on a code host. Zensical makes
the site of them and fails at a link that leads nowhere. Mermaid comes from npm, once: the site fetches nothing from
elsewhere when it is looked at.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build/pages"
MERMAID = "12.3.0"
MERMAID_SHA256 = "336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3"


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    shutil.copytree(ROOT / "examples", PAGES / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (PAGES / "bench").mkdir()
    shutil.copy(ROOT / "bench/README.md", PAGES / "bench")
    for page in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(page, PAGES)
    assets = PAGES / "assets"
    assets.mkdir()
    shutil.copy(ROOT / "scripts/site/site.css", assets)
    shutil.copy(mermaid(ROOT / ".cache/site"), assets)
    built = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        "zensical.toml",
    ]
    return subprocess.run(built, cwd=ROOT, check=False).returncode


def mermaid(cache: Path) -> Path:
    """The script that draws, from npm or the cache; always the same bytes."""
    script = cache / "mermaid.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(
                "The site's drawings need Mermaid, which comes from npm: install Node, then run this again."
            )
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [npm, "pack", "--silent", f"mermaid@{MERMAID}"], cwd=cache, check=True, stdout=subprocess.DEVNULL
        )
        package = cache / f"mermaid-{MERMAID}.tgz"
        with tarfile.open(package) as packed:
            found = packed.extractfile("package/dist/mermaid.min.js")
            assert found is not None
            script.write_bytes(found.read())
        package.unlink()
    if hashlib.sha256(script.read_bytes()).hexdigest() != MERMAID_SHA256:
        script.unlink()
        raise SystemExit(f"Mermaid {MERMAID} from npm isn't the one that is known; nothing was built.")
    return script


if __name__ == "__main__":
    sys.exit(main())
