"""Servers that behave badly."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], "bytes | Iterator[bytes]"]
Respond = Callable[..., "Answer | None"]


def json_answer(status: int, body: Any, **headers: str) -> Answer:
    """An answer of JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"content-type": "application/json", **named}, json.dumps(body).encode()


def problem(status: int, code: str, retryable: bool, **headers: str) -> Answer:
    """A problem document."""
    body = {
        "type": f"/problems#{code}",
        "title": "It went wrong",
        "status": status,
        "code": code,
        "detail": "on purpose",
        "retryable": retryable,
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }
    return json_answer(status, body, **headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that its client closes is nothing to print."""


@contextmanager
def server(respond: Respond, with_headers: bool = False) -> Iterator[str]:
    """A server that answers what `respond` says of method, path and body, and headers; None cuts the connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            more = [dict(self.headers.items())] if with_headers else []
            answer = respond(self.command, self.path, body, *more)
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-length" not in headers and isinstance(content, bytes):
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            for piece in (content,) if isinstance(content, bytes) else content:
                self.wfile.write(piece)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    running = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}"
    finally:
        running.shutdown()
        running.server_close()


@contextmanager
def proxy(upstream: str, cut: Callable[[str], str]) -> Iterator[str]:
    """A proxy of a service. `cut` says of a path: "before" the request is passed on, "after" it, or "" for no cut."""
    address = urlsplit(upstream)
    local = threading.local()

    def respond(method: str, path: str, body: bytes) -> Answer | None:
        where = cut(path)
        if where == "before":
            return None
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(address.hostname or "", address.port)
        headers = {"content-type": "application/json"} if body else {}
        local.connection.request(method, path, body or None, headers)
        answer = local.connection.getresponse()
        content = answer.read()
        if where == "after":
            return None
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in ("transfer-encoding", "date", "server")}
        return answer.status, kept, content

    with server(respond) as url:
        yield url
