"""The command line `firn`: the library's verbs for a shell and for scripts.

A command parses its arguments, calls one public verb and prints the answer: a table or a line for people, one
JSON document for programs (`--json`). The work of a verb belongs into the rooms below. `app` holds the commands'
frame and the answers to errors, `call` what commands on one table share, `target` how tables are named,
`terminal/output` all printing. Start reading in `read`.
"""

from __future__ import annotations


def main() -> None:
    """The entry point of the script `firn`."""
    import gc
    import sys

    # Modules are no garbage: to look for some while they load takes a tenth of an answer.
    gc.set_threshold(20_000)
    try:
        _run()
    except KeyboardInterrupt:  # while the program itself was still being loaded
        sys.exit(130)
    finally:
        gc.freeze()  # nor at the end


def _run() -> None:
    import os
    import sys
    import warnings

    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries, to their programmers; Firn's own are printed
    if sys.argv[1:2] == ["sql"] and "_FIRN_COMPLETE" not in os.environ:
        from firn.cli.sql.plain import answer

        if (code := answer(sys.argv[2:])) is not None:
            sys.exit(code)
    from firn.cli.app import app
    from firn.cli.commands import keep, register

    register()
    if len(sys.argv) > 1:
        keep(sys.argv[1])
    app()
