"""A receiver of deliveries that misbehaves by its path. It prints its port, then one line of JSON for each request."""

import base64, hashlib, hmac, json, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = base64.b64decode(sys.argv[1].removeprefix("whsec_")) if len(sys.argv) > 1 else None
SEEN = {}
LOCK = threading.Lock()
BUSY = []


def verified(headers, body):
    """Checks the signature as the standard says, with the library of the language alone."""
    if SECRET is None or "webhook-signature" not in headers:
        return None
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    given = [part.split(",", 1)[1] for part in headers["webhook-signature"].split()]
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and any(hmac.compare_digest(expected, one) for one in given)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        task = self.headers.get("webhook-id")
        with LOCK:
            SEEN[task] = SEEN.get(task, 0) + 1
            times = SEEN[task]
            line = {
                "method": self.command, "path": self.path, "body": body.decode(), "times": times,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "verified": verified(self.headers, body), "at": time.time(),
            }
            print(json.dumps(line), flush=True)
        path = self.path.split("?")[0]
        json_type = [("content-type", "application/json")]
        if path == "/flaky" and times < 3:
            self.answer(500, b"out of order")
        elif path == "/later" and times < 2:
            self.answer(429, b"", [("retry-after", "1")])
        elif path == "/gone":
            self.answer(410, b"unsubscribed")
        elif path == "/headers":
            self.answer(200, b"ok", [(f"x-{number}", "x") for number in range(500)])
        elif path == "/bad":
            self.answer(400, b"no such user\x00\x1b[31m " + b"x" * 5000)
        elif path == "/moved":
            self.answer(302, b"", [("location", "/ok")])
        elif path == "/busy":
            with LOCK:
                BUSY.append(task)
                at_once = len(BUSY)
            time.sleep(0.1)
            with LOCK:
                BUSY.remove(task)
            self.answer(200, str(at_once).encode(), json_type)
        elif path == "/slow":
            time.sleep(5)
            self.answer(200)
        elif path == "/endless":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"1" * 65536)
            except OSError:
                pass
            self.close_connection = True
        elif path == "/drips":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"1")
                    time.sleep(0.05)
            except OSError:
                pass
            self.close_connection = True
        elif path == "/garbage":
            self.wfile.write(b"this is no answer\r\n\r\n")
            self.close_connection = True
        elif path == "/hangs-up":
            self.close_connection = True
        elif path == "/text":
            self.answer(200, "grüße".encode(), [("content-type", "text/plain; charset=utf-8")])
        elif path == "/odd":
            self.answer(200, b"odd", [("content-type", "text")])
        elif path == "/deep":
            self.answer(200, b"[" * 120 + b"]" * 120, json_type)
        else:
            self.answer(200, b'{"ok": true}', json_type)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
