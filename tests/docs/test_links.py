"""Links between pages lead somewhere, headings included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Headings as hosts of repositories make fragments of them."""
    titles = _HEADING.findall(_FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text("utf-8")))
    broken = []
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = [t.partition("#")[0] for t in _LINK.findall(page.read_text("utf-8")) if "://" not in t]
        waiting += [
            (page.parent / link).resolve() for link in links if link and (page.parent / link).exists()
        ]
    assert [page for page in PAGES if page not in reached] == []


def test_the_map_of_the_code_names_modules_that_are_there():
    page = (ROOT / "docs/concepts.md").read_text("utf-8").partition("## Where to find what")[2]
    named = re.findall(r"([a-z_/]+\.py)\b", page)
    assert len(named) > 10
    directory = ""
    missing = []
    for name in named:
        # `lease.py`, `session.py`: the second lies beside the first
        directory = name.rpartition("/")[0] or directory
        if not (ROOT / "src/firn" / directory / name.rpartition("/")[2]).exists():
            missing.append(name)
    assert missing == []
