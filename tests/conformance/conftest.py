"""One fixture that is every kind of bucket in turn."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from firn.bucket import Bucket
from stores.places import Place
from stores.servers import Server, azurite, moto, versitygw

_SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "s3-moto": moto,
    "s3-versitygw": versitygw,
    "azurite": azurite,
}


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Starts a server when it is first asked for; they all stop with the session."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def server(kind: str) -> Server:
            if kind not in running:
                running[kind] = stack.enter_context(_SERVERS[kind]())
            return running[kind]

        yield server


@pytest.fixture(
    params=[
        "memory",
        "directory",
        "s3-moto",
        pytest.param("s3-versitygw", marks=pytest.mark.stores),
        pytest.param("azurite", marks=pytest.mark.stores),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], Server]) -> Place:
    """An empty bucket of each kind."""
    kind: str = request.param
    if kind == "memory":
        return Place(kind, f"memory://test-{uuid.uuid4().hex}", {})
    if kind == "directory":
        return Place(kind, str(tmp_path / "bucket"), {})
    server = servers(kind)
    url = server.new_bucket()
    server.seen.clear()
    return Place(kind, url, server.options, server.seen)


@pytest.fixture
def bucket(place: Place) -> Bucket:
    return place.open()


@pytest.fixture(params=["directory", pytest.param("s3-versitygw", marks=pytest.mark.stores)])
def shared(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], Server]) -> Place:
    """A store that several processes can share."""
    if request.param == "directory":
        return Place("directory", str(tmp_path / "bucket"), {})
    server = servers(request.param)
    return Place(request.param, server.new_bucket(), server.options, server.seen)
