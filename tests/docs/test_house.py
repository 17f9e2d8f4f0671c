"""The Makefile, the set-up scripts and CI's script, with stand-ins for what they call."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("bash", "env", "dirname", "id", "grep", "cat", "nproc", "git", "python3", "rm")


class Machine:
    """A PATH with the bare minimum and stand-ins, which note how they were called."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.calls_file = directory / "calls"
        self.bin.mkdir()
        for name in NEEDED:
            found = shutil.which(name)
            assert found is not None
            (self.bin / name).symlink_to(found)

    def add(self, name: str, body: str = "") -> None:
        program = self.bin / name
        program.unlink(missing_ok=True)
        program.write_text(f'#!/usr/bin/env bash\necho "{name} $*" >> {self.calls_file}\n{body}\n')
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def venv_without_java(directory: Path, installed_by: Path) -> Path:
    """A virtual environment whose Firn finds a Java as soon as apt-get has been there."""
    program = directory / "venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/usr/bin/env bash\ngrep -q install {installed_by} 2>/dev/null && echo /usr/lib/jvm/x\n"
    )
    program.chmod(0o755)
    return program.parents[1]


def test_without_java_and_apt_one_sentence_says_what_to_install(machine, tmp_path):
    venv = venv_without_java(tmp_path, machine.calls_file)
    done = machine.run(str(ROOT / "scripts/ensure-java"), str(venv))
    assert done.returncode != 0
    assert "Spark needs Java 17 or later: install one" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_with_apt_a_java_is_installed(machine, tmp_path):
    venv = venv_without_java(tmp_path, machine.calls_file)
    machine.add("apt-get")
    machine.add(
        "apt-cache", 'case "$2" in *17*) echo "  Candidate: (none)";; *) echo "  Candidate: 21";; esac'
    )
    machine.add("id", "echo 0")
    done = machine.run(str(ROOT / "scripts/ensure-java"), str(venv))
    assert done.returncode == 0, done.stderr
    assert "Java for Spark: /usr/lib/jvm/x" in done.stdout
    assert machine.calls[-1] == "apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless"


def test_without_the_right_to_install_nothing_is_tried(machine):
    machine.add("apt-get")
    machine.add("id", "echo 1000")
    machine.add("sudo", "exit 1")
    done = machine.run(str(ROOT / "scripts/apt-install"), "chromium")
    assert done.returncode != 0
    assert not [call for call in machine.calls if call.startswith("apt-get")]


def test_without_a_python_set_up_says_which_it_needs(machine, tmp_path):
    machine.add("python3", "exit 1")
    done = machine.run(str(ROOT / "scripts/make-venv"), str(tmp_path / "venv"), ".")
    assert done.returncode != 0
    assert "Firn needs Python 3.10 or later" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_ci_runs_everything(machine):
    for name in ("make", "chromium", "go", "npm"):
        machine.add(name)
    done = machine.run(str(ROOT / ".ci/run"))
    assert done.returncode == 0, done.stderr
    assert machine.calls == ["make check", "make test-stores"]


def test_ci_leaves_the_stores_out_where_they_cannot_be_built(machine):
    machine.add("make")
    machine.add("chromium")
    done = machine.run(str(ROOT / ".ci/run"))
    assert done.returncode == 0, done.stderr
    assert machine.calls == ["make check"]
    assert "left out" in done.stdout


@pytest.mark.parametrize("failing", ["check", "test-stores"])
def test_ci_fails_when_anything_does(machine, failing):
    machine.add("make", f'[ "$1" != {failing} ]')
    for name in ("chromium", "go", "npm"):
        machine.add(name)
    assert machine.run(str(ROOT / ".ci/run")).returncode != 0


def test_help_lists_every_command():
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    ).stdout
    listed = set(re.findall(r"^  make ([a-z0-9.-]+) ", shown, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert phony - listed == {"setup-spark41"}
    assert {"setup", "demo", "test", "test-long", "check", "test-stores", "soak", "bench"} <= listed


def test_make_test_runs_every_suite():
    plan = subprocess.run(
        ["make", "-C", str(ROOT), "-n", "test"], capture_output=True, text=True, check=True
    ).stdout
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")} - {
        "lowest",
        "spark41",
        "stores",
    }
    assert {room for room in rooms if f"tests/{room}" not in plan} == set()


def test_no_two_test_modules_have_one_name():
    """`make test-stores` collects all rooms in one process, which imports modules by their bare names."""
    alone = [path for path in (ROOT / "tests").rglob("*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.stem for path in alone if path.stem != "conftest"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_folders_are_small_and_say_where_to_begin():
    folders = {path.parent for path in (ROOT / "src/firn").rglob("*.py")}
    crowded = {folder.name for folder in folders if len(list(folder.glob("*.py"))) > 1 + 16}
    assert crowded == set()
    silent = [folder.name for folder in folders if not _docstring(folder / "__init__.py")]
    assert silent == []


def _docstring(module: Path) -> str | None:
    return ast.get_docstring(ast.parse(module.read_text("utf-8")))


def test_workflows_run_commands_that_there_are():
    targets = set(re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called: set[str] = set()
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        called |= set(re.findall(r"run: make ([a-z0-9.-]+)$", text, re.MULTILINE))
        called |= set(re.findall(r" target: \[?([a-z0-9.-]+)[,\]]", text))
    assert called <= targets
    assert {"test", "test-long", "lint", "smoke-4.1", "test-stores", "test-lowest", "build", "site"} <= called


def test_hooks_are_the_linters_of_make_lint():
    plan = subprocess.run(
        ["make", "-C", str(ROOT), "-n", "lint"], capture_output=True, text=True, check=True
    ).stdout
    entries = re.findall(r"entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text("utf-8"), re.MULTILINE)
    linters = set(re.findall(r"^\.venv/bin/(\S+(?: (?:check|format))?)", plan, re.MULTILINE))
    assert {re.sub(r" --.*", "", entry).removeprefix(".venv/bin/") for entry in entries} == linters


def test_the_wheel_is_looked_into(machine, tmp_path):
    """A wheel that lacks a file, or holds a test, is refused before it is installed."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts/check-build", scripts)
    for name in ("ls", "awk", "mktemp", "basename"):
        found = shutil.which(name)
        assert found is not None
        (machine.bin / name).symlink_to(found)
    machine.add("uv", "exit 1")
    machine.add("python", f'exec {sys.executable} "$@"')
    needed = re.search(r"for needed in (.*?); do", (ROOT / "scripts/check-build").read_text(), re.DOTALL)
    assert needed is not None
    whole = needed.group(1).replace("\\", "").split()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/firn-1.tar.gz").touch()

    def said(names: list[str]) -> str:
        with zipfile.ZipFile(tmp_path / "dist/firn-1.whl", "w") as wheel:
            for name in names:
                wheel.writestr(name, "")
        done = machine.run(str(scripts / "check-build"), str(machine.bin / "uv"), "3.99")
        assert done.returncode != 0
        return done.stdout + done.stderr

    assert "lacks firn/py.typed" in said([name for name in whole if name != "firn/py.typed"])
    assert "doesn't belong there: tests/test_x.py" in said([*whole, "tests/test_x.py"])
    assert "holds tests" in said([*whole, "firn/tests/x.py"])
    assert "None of these Pythons is here: 3.99" in said(whole)
