"""What an `alter` of a keyed table changed, a line each, told by the entries before and after it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from firn.journal.entries import COMMENT, DEFAULT, DROP, NAME, PROPERTY, TYPE, Entries


def told(before: Entries, after: Entries) -> tuple[str, ...]:
    """The changes from one definition to the next.

    >>> changed = Entries().changed({(NAME, "delay"): "minutes", (DROP, "tail"): True, (PROPERTY, "flush_ms"): 20})
    >>> told(Entries(), changed)
    ('drop tail', 'rename delay to minutes', 'set flush_ms = 20')
    """
    return tuple(_lines(before, after)) if before != after else ()


def _lines(before: Entries, after: Entries) -> Iterator[str]:
    were, names = before.present(NAME), after.present(NAME)
    new: dict[str, dict[str, object]] = {}
    for (kind, name), entry in after.map.items():
        if before.map.get((kind, name)) != entry:
            new.setdefault(kind, {})[name] = entry.value
    stamps = {name: after.map[DEFAULT, name].stamp for name in new.get(DEFAULT, ())}
    added = sorted(stamps, key=stamps.__getitem__)
    types = after.present(TYPE)
    for name, wider in new.get(TYPE, {}).items():
        if name not in stamps:
            yield f"type of {names.get(name, name)}: {wider}"
    for name in new.get(DROP, ()):
        yield f"drop {were.get(name, name)}"
    for name, called in new.get(NAME, {}).items():
        if name not in stamps:
            yield f"rename {were.get(name, name)} to {called}"
    for name in added:
        default = after.map[DEFAULT, name].value
        with_default = "" if default is None else f" default {default}"
        yield f"add {names.get(name, name)} {types.get(name)}{with_default}"
    for name in new.get(COMMENT, ()):
        yield f"comment on {names.get(name, name)}" if name else "comment"
    for name, value in new.get(PROPERTY, {}).items():
        yield f"unset {name}" if value is None else f"set {name} = {value}"
