"""A worker lets go of archives between tasks, and can still import from them."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport

from firn.spark.session.worker import settle_imports


def archives() -> list[str]:
    return [p for p, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]


def test_finders_of_archives_go_and_later_imports_work(tmp_path, monkeypatch):
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("firn_in_zip_a.py", "X = 1")
        out.writestr("firn_in_zip_b.py", "X = 2")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("firn_in_zip_a").X == 1
    assert str(archive) in archives()
    settle_imports()
    assert archives() == []
    assert importlib.import_module("firn_in_zip_b").X == 2


def test_finders_of_directories_stay(tmp_path, monkeypatch):
    (tmp_path / "firn_in_directory.py").write_text("X = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("firn_in_directory")
    finder = sys.path_importer_cache[str(tmp_path)]
    settle_imports()
    assert sys.path_importer_cache[str(tmp_path)] is finder
