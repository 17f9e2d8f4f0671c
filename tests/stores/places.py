"""Where a bucket under test is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firn.bucket import Bucket, open_bucket


@dataclass(frozen=True)
class Place:
    """Where a bucket is: `open` gives a new client of it."""

    kind: str
    url: str
    options: dict[str, Any]
    seen: list[str] = field(default_factory=list)

    def open(self, **more: Any) -> Bucket:
        return open_bucket(self.url, options={**self.options, **more})
