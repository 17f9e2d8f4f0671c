"""The reference is what the docstrings say now, and lists all that the package exports."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import firn
from firn.cli.terminal.exits import EXIT_CODES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"


def written() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts/write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, str] = module.pages()
    return pages


PAGES = written()


def test_no_other_pages():
    assert {path.name for path in REFERENCE.iterdir()} == PAGES.keys()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_current(name):
    assert (REFERENCE / name).read_text("utf-8") == PAGES[name], "run `make docs`"


def test_all_that_is_exported_is_there():
    headings = {h for page in PAGES.values() for h in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    assert {name for name in firn.__all__ if name != "__version__"} - headings == set()


def test_exit_codes_are_those_of_the_page():
    page = (ROOT / "docs/howto/maintenance.md").read_text("utf-8")
    shown = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert shown == [code for code, _ in EXIT_CODES]
