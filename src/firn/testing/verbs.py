"""The verbs of a bucket, and one request as plans of faults see it."""

from __future__ import annotations

from typing import Literal, Protocol

Verb = Literal[
    "get", "get_range", "head", "list", "list_dirs", "put", "put_if_absent", "put_if_match", "delete"
]

READS: frozenset[Verb] = frozenset({"get", "get_range", "head", "list", "list_dirs"})
CONDITIONAL_PUTS: frozenset[Verb] = frozenset({"put_if_absent", "put_if_match"})
PUTS: frozenset[Verb] = CONDITIONAL_PUTS | {"put"}
WRITES: frozenset[Verb] = PUTS | {"delete"}


class Request(Protocol):
    """A request that is about to be made."""

    @property
    def number(self) -> int: ...

    @property
    def client(self) -> str: ...

    @property
    def verb(self) -> Verb: ...

    @property
    def key(self) -> str: ...
