"""Matrices whose cells are one test: each cell by itself costs more to collect and to set up than to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import product
from typing import Any

Test = Callable[..., None]


def every_cell(make: Callable[..., Any], **axes: Sequence[Any]) -> Callable[[Test], Test]:
    """Run a test once for each combination of the axes, its first argument made by `make` from the combination and
    from what else the test asks for and `make` takes.

    The cell is printed, so that pytest shows it where one fails.
    """
    given = [name for name in inspect.signature(make).parameters if name not in axes]

    def decorate(test: Test) -> Test:
        _, *own = inspect.signature(test).parameters.values()

        @wraps(test)
        def run(**arguments: Any) -> None:
            mine = {parameter.name: arguments[parameter.name] for parameter in own}
            for values in product(*axes.values()):
                cell = dict(zip(axes, values, strict=True))
                print("cell:", cell)
                test(make(**cell, **{name: arguments[name] for name in given}), **mine)

        names = {*given, *(parameter.name for parameter in own)}
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in sorted(names)]
        )
        return run

    return decorate
