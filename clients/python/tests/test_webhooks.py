"""Signed requests, of the standard's own example, and of the service."""

from __future__ import annotations

import base64
import threading
import time

import pytest

from tickwheel import Client
from tickwheel.errors import InvalidArgument, InvalidSignature
from tickwheel.webhooks import Webhook, sign, verify

from .fakes import server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"k" * 24).decode()
# The example of https://github.com/standard-webhooks.
HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
BODY = b'{"test": 2432232314}'
NOW = 1614265330.0


def test_the_example_of_the_standard() -> None:
    webhook = verify(BODY, HEADERS, SECRET, now=NOW)
    assert (webhook.id, webhook.attempt, webhook.json()) == (HEADERS["webhook-id"], 1, {"test": 2432232314})
    assert verify(BODY, {name.title(): value for name, value in HEADERS.items()}, [OTHER, SECRET], now=NOW + 300)
    signatures = f"v2,abc {sign(BODY, HEADERS['webhook-id'], '1614265330', OTHER)} {HEADERS['webhook-signature']}"
    assert verify(BODY, {**HEADERS, "webhook-signature": signatures}, SECRET, now=NOW - 300)


@pytest.mark.parametrize(
    ("body", "headers", "now"),
    [
        (BODY + b" ", {}, NOW),
        (BODY, {"webhook-id": "msg_other"}, NOW),
        (BODY, {"webhook-timestamp": "1614265331"}, NOW),
        (BODY, {"webhook-timestamp": "+1614265330"}, NOW),
        (BODY, {"webhook-timestamp": "1_614_265_330"}, NOW),
        (BODY, {"webhook-timestamp": ""}, NOW),
        (BODY, {"webhook-signature": ""}, NOW),
        (BODY, {"webhook-signature": "v1,ä"}, NOW),
        (BODY, {"webhook-signature": HEADERS["webhook-signature"].replace("v1", "v2")}, NOW),
        (BODY, {}, NOW + 301),
        (BODY, {}, NOW - 301),
    ],
)
def test_what_was_not_signed_is_refused(body: bytes, headers: dict[str, str], now: float) -> None:
    with pytest.raises(InvalidSignature):
        verify(body, {**HEADERS, **headers}, SECRET, now=now)


def test_what_lacks_a_header_or_a_secret_is_refused() -> None:
    for name in HEADERS:
        with pytest.raises(InvalidSignature, match=name):
            verify(BODY, {key: value for key, value in HEADERS.items() if key != name}, SECRET, now=NOW)
    with pytest.raises(InvalidSignature):
        verify(BODY, HEADERS, OTHER, now=NOW)
    with pytest.raises(InvalidArgument):
        verify(BODY, HEADERS, [], now=NOW)
    with pytest.raises(InvalidArgument):
        verify(BODY, HEADERS, "whsec_!", now=NOW)


def test_the_service_signs_what_it_sends(client: Client, callback: str) -> None:
    came: list[Webhook] = []
    done = threading.Event()
    with receiver(came, done) as url:
        client.callbacks.set(callback, http={"url": url, "secrets": [SECRET]})
        task = client.register(callback, {"user": 7}, retry={"initial": "50ms"})
        assert done.wait(10)
        assert client.wait(task.id, 5).state == "succeeded"
    assert [(one.id, one.attempt, one.json()) for one in came] == [(task.id, 1, {"user": 7}), (task.id, 2, {"user": 7})]
    assert abs(came[0].timestamp.timestamp() - time.time()) < 20
    client.callbacks.delete(callback)


def receiver(came: list[Webhook], done: threading.Event):  # type: ignore[no-untyped-def]
    """A receiver that takes the second attempt."""

    def respond(method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        came.append(verify(body, headers, SECRET))
        if len(came) == 1:
            return 500, {}, b""
        done.set()
        return 204, {}, b""

    return server(respond, with_headers=True)
