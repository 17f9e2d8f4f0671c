"""Run the blocks of one Markdown page, in the working directory: `python run_page.py PAGE`.

`python` blocks share one namespace, and `>>>` in them are checked. `console` blocks run each line after a `$`
and check the lines below it, if there are any (`...` matches anything). Other blocks are for people. Fails by
the first block that does, naming its line.
"""

from __future__ import annotations

import doctest
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        yield Block(found[1], text.count("\n", 0, found.start(2)) + 1, found[2])


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> None:
    where = f"{page.name}:{block.line}"
    if ">>>" in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, namespace, where, str(page), block.line - 1)
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        runner.run(test, clear_globs=False)
        if runner.failures:
            raise AssertionError(f"{where}: what it shows is not what comes")
        namespace.update(test.globs)
    else:
        # Blank lines before it, so that tracebacks name the page's lines.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


def run_console(page: Path, block: Block, programs: Path) -> None:
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for command, shown in commands(block):
        # make's own targets run these pages; that it knows the target has to do.
        line = (
            command.replace("make ", f"make -n -C {page.parent} ", 1)
            if command.startswith("make ")
            else command
        )
        done = subprocess.run(
            ["bash", "-c", line], env=environment, capture_output=True, text=True, check=False
        )
        where = f"{page.name}:{block.line}: {command}"
        if done.returncode:
            raise AssertionError(f"{where}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        if shown and not doctest.OutputChecker().check_output(shown, done.stdout, OPTIONS):
            raise AssertionError(f"{where}\nexpected:\n{shown}\ngot:\n{done.stdout}")


def firn_program(directory: Path) -> Path:
    """A `firn` that runs with this Python, wherever the package was installed."""
    directory.mkdir()
    program = directory / "firn"
    program.write_text(f"#!{sys.executable}\nfrom firn.cli import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return directory


def main(page: Path) -> None:
    programs = firn_program(Path.cwd() / ".programs")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            run_python(page, block, namespace)
        elif block.language == "console":
            run_console(page, block, programs)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
