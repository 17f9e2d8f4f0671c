"""Stores with the latency of a distant one: a real S3 server behind a proxy that waits and counts.

Loopback answers in microseconds, where a bucket takes ten milliseconds and more: what a program does one after
the other costs nothing here and everything there. The proxy holds each answer back, and counts the requests and
bytes of whoever is behind it, Firn or a peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import ROOT

ACCESS, SECRET, REGION = "firn-bench", "firn-bench-secret", "us-east-1"
BUCKET = "bench"
_HEAD_END = b"\r\n\r\n"


def server_program() -> Path | None:
    """versitygw, where `make test-stores` or `go install` has put it."""
    built = ROOT / ".cache" / "bin" / "versitygw"
    found = shutil.which("versitygw")
    at_home = Path.home() / "go" / "bin" / "versitygw"
    for candidate in (built, Path(found) if found else None, at_home):
        if candidate is not None and candidate.exists():
            return candidate
    return None


@dataclass
class SlowStore:
    """A running server behind its proxy; `place` is the bucket's directory, for filling it fast, and `direct` the
    server's own endpoint, for whoever isn't to wait."""

    endpoint: str
    place: Path
    direct: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}"

    @property
    def firn_options(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "aws_access_key_id": ACCESS,
            "aws_secret_access_key": SECRET,
            "region": REGION,
            "allow_http": True,
        }

    @property
    def delta_options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "aws_access_key_id": ACCESS,
            "aws_secret_access_key": SECRET,
            "region": REGION,
            "allow_http": "true",
            "conditional_put": "etag",
        }

    @contextlib.contextmanager
    def counted(self, into: dict[str, Any]) -> Iterator[None]:
        """Put into `into` what arrives meanwhile, whoever sends it."""
        before, came, went = self.requests.copy(), self.bytes_in, self.bytes_out
        yield
        new = self.requests - before
        into["requests"] = new.total()
        into.update({verb.lower(): number for verb, number in sorted(new.items())})
        into["mb_in"] = round((self.bytes_in - came) / 2**20, 3)
        into["mb_out"] = round((self.bytes_out - went) / 2**20, 3)


@contextlib.contextmanager
def slow_store(latency_s: float) -> Iterator[SlowStore]:
    """Start server and proxy on free loopback ports; both end with the block."""
    program = server_program()
    if program is None:
        raise FileNotFoundError("versitygw is not there: run python tests/stores/install.py")
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        place = Path(root, BUCKET)
        place.mkdir()
        port = free_port()
        environment = {**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "posix", root],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(_stop, process)
        _wait_for(port, process)
        store = SlowStore("", place, f"http://127.0.0.1:{port}")
        proxy = _Proxy(store, port, latency_s)
        stack.callback(proxy.stop)
        store.endpoint = f"http://127.0.0.1:{proxy.port}"
        yield store


class _Proxy:
    """HTTP/1.1 both ways, bodies by content-length or in chunks, one server connection a client connection."""

    def __init__(self, store: SlowStore, target: int, latency_s: float) -> None:
        self._store, self._target, self._latency = store, target, latency_s
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="bench-proxy", daemon=True)
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            server, ask = await asyncio.open_connection("127.0.0.1", self._target, limit=2**20)
            try:
                while True:
                    head = await client.readuntil(_HEAD_END)
                    arrived = time.perf_counter()
                    verb, path = head.split(b" ", 2)[:2]
                    self._count(verb.decode(), path.decode())
                    ask.write(head)
                    sent = await _copy_body(head, client, ask)
                    self._store.bytes_out += sent  # read after the wait, in which others add theirs
                    back = await server.readuntil(_HEAD_END)
                    await asyncio.sleep(max(0.0, self._latency - (time.perf_counter() - arrived)))
                    answer.write(back)
                    status = int(back.split(b" ", 2)[1])
                    if verb != b"HEAD" and status not in (204, 304):
                        got = await _copy_body(back, server, answer)
                        self._store.bytes_in += got
                    await answer.drain()
            finally:
                ask.close()
                answer.close()

    def _count(self, verb: str, path: str) -> None:
        if verb == "GET" and ("list-type" in path or "prefix=" in path):
            verb = "LIST"
        self._store.requests[verb] += 1


async def _copy_body(head: bytes, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> int:
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        total = 0
        while True:
            line = await source.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            sink.write(line + await source.readexactly(size + 2))
            total += size
            if size == 0:
                return total
    length = int(headers.get(b"content-length", b"0"))
    left = length
    while left:
        data = await source.read(min(left, 2**18))
        if not data:
            raise ConnectionError("the other side closed within a body")
        sink.write(data)
        left -= len(data)
        await sink.drain()
    return length


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("versitygw did not start")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()
