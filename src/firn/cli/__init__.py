"""The command line `firn`: the library's verbs for a shell and for scripts.

A command parses its arguments, calls one public verb and prints the answer: a table or a line for people, one
JSON document for programs (`--json`). The work of a verb belongs into the rooms below. `app` holds the commands'
frame and the answers to errors, `call` what commands on one table share, `target` how tables are named,
`terminal/output` all printing. Start reading in `read`.
"""

from __future__ import annotations


def main() -> None:
    """The entry point of the script `firn`."""
    import sys

    try:
        _run()
    except KeyboardInterrupt:  # while the program itself was still being loaded
        sys.exit(130)


def _run() -> None:
    import sys
    import warnings

    from firn.cli.app import app
    from firn.cli.commands import keep, register

    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries, to their programmers; Firn's own are printed
    register()
    if len(sys.argv) > 1:
        keep(sys.argv[1])
    app()
