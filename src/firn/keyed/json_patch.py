"""JSON merge patches (RFC 7396): applied to a document, and two made one where one can say both."""

from __future__ import annotations

from typing import Any


def apply_patch(document: Any, patch: Any) -> Any:
    """The document that a patch makes of one.

    >>> apply_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_patch(merged.get(name), inner)
    return merged


def compose_patches(older: Any, newer: Any) -> tuple[Any] | None:
    """One patch that does what two do, in a tuple; None where no patch does.

    An object over something that replaces, or removes, can't be said in one: what the object leaves alone would
    come back from the document. Nor can a value that is set after its removal: it comes last then, and would keep the
    place that it has in the document.

    >>> compose_patches({"a": 1}, {"a": None, "b": 2})
    ({'a': None, 'b': 2},)
    >>> compose_patches({"a": 1}, {"a": {"b": 1}}) is None and compose_patches({"a": None}, {"a": 1}) is None
    True
    """
    if not isinstance(newer, dict):
        return (newer,)
    if not isinstance(older, dict):
        return None
    merged = dict(older)
    for name, inner in newer.items():
        if name in merged:
            if merged[name] is None and inner is not None:
                return None
            both = compose_patches(merged[name], inner)
            if both is None:
                return None
            (merged[name],) = both
        else:
            merged[name] = inner
    return (merged,)
