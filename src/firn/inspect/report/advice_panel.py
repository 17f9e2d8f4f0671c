"""What to do next, on a page."""

from __future__ import annotations

from collections.abc import Sequence

from firn.inspect.report.advice import Advice
from firn.inspect.report.page import Html, panel, tag


def advice_panel(found: Sequence[Advice]) -> Html:
    """Each advice with its command; where there is none, that all is in order."""
    if not found:
        return panel("What to do next", tag("p", "Nothing: all is in order."))
    return panel(
        "What to do next", *(tag("p", a.why, " ", tag("code", a.command) if a.command else "") for a in found)
    )
