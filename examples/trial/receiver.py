#!/usr/bin/env python3
"""A receiver of signed webhooks in Python, with the standard library only: copy it, and put your own work into `handle`.

    WEBHOOK_SECRET=whsec_... examples/trial/receiver.py --port 8000

It believes a message that is signed as Standard Webhooks says (https://www.standardwebhooks.com): HMAC-SHA256 of
`id.timestamp.body` under the secret. It refuses others, and those that are older than five minutes: somebody may have
recorded them. A message may come several times, and has the same id each time: it is handled once.
"""

import argparse
import base64
import binascii
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

AGE_SECONDS_MAX = 300
BODY_BYTES_MAX = 1 << 20


def handle(message):
    """Your work. Keep the ids that were handled in the database that it changes, in one transaction."""
    print(f"the trial of {message['user']} has ended", flush=True)


def key_of(secret):
    """Reads a secret: `whsec_` and base64."""
    return base64.b64decode(secret.removeprefix("whsec_"), validate=True)


def is_signed(key, headers, body, now):
    """Tells whether the message is by somebody who knows the secret, and was sent lately."""
    try:
        name, sent = headers["webhook-id"], headers["webhook-timestamp"]
        signed = b".".join([name.encode(), sent.encode(), body])
        age = abs(now - int(sent))
        given = [part.split(",", 1) for part in headers["webhook-signature"].split()]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # Each secret has a signature: two while one is replaced.
    fits = [
        hmac.compare_digest(expected, signature[1].encode())
        for signature in given
        if len(signature) == 2 and signature[0] == "v1"
    ]
    return age <= AGE_SECONDS_MAX and any(fits)


class Webhook(BaseHTTPRequestHandler):
    timeout = 10  # a client that sends nothing is not waited for
    key = b""
    handled = set()

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            return self.answer(413, {"error": "the body has no length, or is too long"})
        body = self.rfile.read(int(length))
        if not is_signed(self.key, self.headers, body, time.time()):
            return self.answer(401, {"error": "the signature does not fit"})
        name = self.headers["webhook-id"]
        if name not in self.handled:
            # An exception is a 500, and the message comes again.
            try:
                handle(json.loads(body))
            except Exception as error:
                return self.answer(500, {"error": str(error)})
            self.handled.add(name)
        return self.answer(200, {"handled": name})

    def answer(self, status, fields):
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 that it listens on; 0 is any")
    flags.add_argument("--webhooks", type=int, help="end after so many messages; without it, it goes on")
    flags = flags.parse_args()
    try:
        Webhook.key = key_of(os.environ["WEBHOOK_SECRET"])
    except (KeyError, binascii.Error):
        sys.exit("WEBHOOK_SECRET is not set, or is not whsec_ and base64")
    server = HTTPServer(("127.0.0.1", flags.port), Webhook)
    print(f"listening on port {server.server_address[1]}", flush=True)
    while flags.webhooks is None or len(Webhook.handled) < flags.webhooks:
        server.handle_request()


if __name__ == "__main__":
    main()
