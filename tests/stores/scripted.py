"""An HTTP server on loopback that answers from a script, to see how a client takes each failure."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """An answer; `cut` sends only so many bytes of the body and closes the connection."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


DROP = "drop"
"""Read the request, then reset the connection without a word."""

HANG = "hang"
"""Read the request and never answer."""

Step = Reply | str | Callable[[Request], Reply]


class ScriptedServer:
    """Answers the n-th request by the n-th step; after the last step, by `default`."""

    def __init__(self, steps: Iterable[Step] = (), default: Step = Reply(500)) -> None:
        self.steps: deque[Step] = deque(steps)
        self.default = default
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def next_step(self, request: Request) -> Step:
        with self._lock:
            self.requests.append(request)
            return self.steps.popleft() if self.steps else self.default

    @contextlib.contextmanager
    def running(self) -> Iterator[ScriptedServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], script: ScriptedServer) -> None:
        self.script = script
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        while (request := self._read()) is not None:
            step = self.server.script.next_step(request)
            if callable(step):
                step = step(request)
            if step == HANG:
                self.server.script._stopping.wait()
                return
            if step == DROP:
                # Linger 0 turns close into a reset, as a crashed proxy would send.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            assert isinstance(step, Reply)
            self._answer(step, head=request.method == "HEAD")
            if step.cut is not None:
                return

    def _read(self) -> Request | None:
        try:
            line = self.rfile.readline().decode("latin-1")
        except OSError:
            return None
        if not line.strip():
            return None
        method, target, _ = line.split(" ", 2)
        headers: dict[str, str] = {}
        while (raw := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = raw.partition(":")
            headers[name.lower()] = value.strip()
        return Request(method, target, headers, self.rfile.read(int(headers.get("content-length", 0))))

    def _answer(self, reply: Reply, *, head: bool) -> None:
        headers = {"Content-Length": str(len(reply.body)), **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
        body = b"" if head else reply.body[: reply.cut]
        with contextlib.suppress(OSError):  # the client may have given up
            self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
