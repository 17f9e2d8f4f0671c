"""The site's menu has every page that a reader should find, and the site asks nobody else for anything."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "zensical.toml").read_text("utf-8")


def test_the_menu_has_every_page():
    listed = re.findall(r'\{ "[^"]+" = "([^"]+\.md)" \}', CONFIG)
    pages = {
        path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    }
    assert sorted(listed) == sorted(pages)


def test_what_the_site_loads_comes_with_it():
    assert re.search(r"^font = false$", CONFIG, re.MULTILINE)
    assert "://" not in CONFIG + "".join(
        path.read_text("utf-8") for path in (ROOT / "scripts/site").iterdir()
    )
