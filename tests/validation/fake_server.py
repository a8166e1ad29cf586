"""A local HTTP server that answers what a test tells it to."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Route = Any
"""A JSON value, a text, bytes, (status, any of these), or what writes its own answer to a handler."""


class Fake(ThreadingHTTPServer):
    """`routes` by path. `seen` are the requests: method, path, headers and body."""

    daemon_threads = True

    def __init__(self, routes: Mapping[str, Route]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.routes = routes
        self.seen: list[tuple[str, str, Mapping[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Fake
    timeout = 20

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        route = self.server.routes.get(self.path, (404, {"error": "no such path"}))
        if callable(route):
            route(self)
            return
        status, content = route if isinstance(route, tuple) else (200, route)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        body = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr, which the tests read."""


@contextlib.contextmanager
def serving(routes: Mapping[str, Route]) -> Iterator[Fake]:
    server = Fake(routes)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def moved(location: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Redirects to `location`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def raw(content: bytes, then: bytes = b"", times: int = 0, pause: float = 0.0) -> Callable[[BaseHTTPRequestHandler], None]:
    """Writes bytes as they are, then `then` again and again, until the other side hangs up."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.wfile.write(content)
            for _ in range(times):
                handler.wfile.write(then)
                if pause:
                    threading.Event().wait(pause)

    return answer
