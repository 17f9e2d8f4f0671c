"""A writer's definition with a feature of a newer Firn, which has no checksum of its own, was called damaged."""

from __future__ import annotations

import orjson
import pytest

import firn
from firn.lake.definition.definition import LakeDefinition


@pytest.mark.parametrize("more", [{"firn": 5, "features": ["lenses"]}, {"firn": 9}])
def test_a_definition_without_checksum_names_what_it_needs(more: dict[str, object]) -> None:
    spec = {"name": "t", "kind": "lake", "journal": "writer", "new": 1, **more}
    with pytest.raises(firn.UnsupportedError, match="Upgrade Firn"):
        LakeDefinition.decode(orjson.dumps(spec), "the definition by the writer w")


def test_one_that_is_no_definition_is_damaged() -> None:
    for data in (b"[]", b"5", b'{"crc": 1}', b"{}"):
        with pytest.raises(firn.CorruptObjectError):
            LakeDefinition.decode(data, "x")
