"""Just enough of a bucket for a runner: it pickles, and it counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from firn.bucket.base import Capabilities, Counters


@dataclass
class FakeBucket:
    shareable: bool = True
    url: str = "fake://"
    counters: Counters = field(default_factory=Counters)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(conditional_put=True, shareable=self.shareable)
