"""Real servers as context managers: each starts on a free loopback port and is stopped on the way out."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from stores.install import AZURITE, VERSITYGW

_STARTED_WITHIN = 60.0
_S3_KEYS = {
    "aws_access_key_id": "firn-test",
    "aws_secret_access_key": "firn-test-secret",
    "region": "us-east-1",
}
_AZURE_ACCOUNT = "devstoreaccount1"
# The key that Microsoft publishes for its emulators.
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass
class Server:
    """A running store; `new_bucket` makes an empty bucket and gives its URL.

    `seen` lists the requests that arrived, as "METHOD path?query", where the server can tell.
    """

    options: dict[str, Any]
    new_bucket: Callable[[], str]
    seen: list[str] = field(default_factory=list)


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    """moto's S3 in a thread. Requests are served one at a time: its conditional puts check, then write."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *args: object) -> None:
            pass

    inner = DomainDispatcherApplication(create_backend_app)
    seen: list[str] = []
    one_at_a_time = threading.Lock()

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        query = environ.get("QUERY_STRING", "")
        with one_at_a_time:
            seen.append(
                f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}" + (f"?{query}" if query else "")
            )
            return [b"".join(inner(environ, start_response))]

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_port}"

    def new_bucket() -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")):
            return f"s3://{name}"

    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Server({**_S3_KEYS, "endpoint": url, "allow_http": True}, new_bucket, seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def versitygw() -> Iterator[Server]:
    """A real S3 server over a temporary directory."""
    _require(VERSITYGW)
    with tempfile.TemporaryDirectory() as root:
        port = _free_port()
        command = [str(VERSITYGW), "--port", f"127.0.0.1:{port}", "posix", root]
        keys = {
            "ROOT_ACCESS_KEY": _S3_KEYS["aws_access_key_id"],
            "ROOT_SECRET_KEY": _S3_KEYS["aws_secret_access_key"],
        }

        def new_bucket() -> str:
            name = f"bucket-{uuid.uuid4().hex[:12]}"
            Path(root, name).mkdir()
            return f"s3://{name}"

        with _process(command, port, keys):
            options = {**_S3_KEYS, "endpoint": f"http://127.0.0.1:{port}", "allow_http": True}
            yield Server(options, new_bucket)


@contextlib.contextmanager
def azurite() -> Iterator[Server]:
    """Microsoft's emulator of Azure's blobs."""
    _require(AZURITE)
    with tempfile.TemporaryDirectory() as root:
        port = _free_port()
        command = [str(AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", root]
        endpoint = f"http://127.0.0.1:{port}/{_AZURE_ACCOUNT}"

        def new_bucket() -> str:
            name = f"container-{uuid.uuid4().hex[:12]}"
            _create_container(endpoint, name)
            return f"az://{name}"

        with _process([*command, "--silent", "--skipApiVersionCheck"], port, {}):
            options = {
                "account_name": _AZURE_ACCOUNT,
                "account_key": _AZURE_KEY,
                "endpoint": endpoint,
                "allow_http": True,
            }
            yield Server(options, new_bucket)


def _create_container(endpoint: str, name: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed = "\n".join(f"{k}:{v}" for k, v in sorted(headers.items()))
    resource = f"/{_AZURE_ACCOUNT}/{_AZURE_ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"{signed}\n{resource}"
    digest = hmac.new(base64.b64decode(_AZURE_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request):
        pass


def _require(program: Path) -> None:
    if not program.exists():
        raise FileNotFoundError(f"{program} is not there; run python tests/stores/install.py")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _process(command: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment}) as process,
    ):
        try:
            deadline = time.monotonic() + _STARTED_WITHIN
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise RuntimeError(
                        f"{command[0]} did not start: {output.read().decode(errors='replace')}"
                    )
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
