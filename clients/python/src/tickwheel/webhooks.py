"""Checks signed requests of the service: tasks over HTTP, notices, actions (https://www.standardwebhooks.com).

webhook = verify(request.body, request.headers, os.environ["WEBHOOK_SECRET"])
if not seen(webhook.id):
    handle(webhook.json())
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ._values import Duration, seconds
from .errors import InvalidArgument, InvalidSignature

__all__ = ["InvalidSignature", "Webhook", "sign", "verify"]

_PREFIX = "whsec_"


@dataclass(frozen=True)
class Webhook:
    """A request that one of the secrets has signed."""

    id: str
    """The same on every attempt: drop what you have seen."""
    timestamp: datetime.datetime
    """When this attempt was sent."""
    attempt: int
    """The number of the attempt, from 1."""
    previous: str | None
    """The id of the task before, where the body has its result."""
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def verify(
    body: bytes, headers: Mapping[str, str], secrets: str | Iterable[str], *, tolerance: Duration = 300, now: float | None = None
) -> Webhook:
    """Checks the signature of a request and its age.

    Args:
        body: the bytes as they came, before any framework has read them as JSON.
        headers: of the request, of any framework; their names may have any case.
        secrets: `whsec_...`, or several while one replaces another.
        tolerance: how old or how far ahead the request may be, against replays.
        now: seconds since 1970; the clock of this machine by default.

    Raises:
        InvalidSignature: no secret has signed it, a header is missing, or it is too old.
        InvalidArgument: a secret that is none.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp, signatures = (lower[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as error:
        raise InvalidSignature(f"the header {error} is missing") from None
    # Digits alone: `int` also reads signs, spaces and underscores, and the signature is of the text.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise InvalidSignature("the header webhook-timestamp is not seconds since 1970")
    keys = [secrets] if isinstance(secrets, str) else list(secrets)
    if not keys:
        raise InvalidArgument("no secret was given")
    expected = [sign(body, id, timestamp, key) for key in keys]
    given = signatures.split(" ")
    # All are compared, so that the time tells nothing.
    if not any([hmac.compare_digest(one.encode(), good.encode()) for good in expected for one in given]):
        raise InvalidSignature("no signature is of one of the secrets")
    if abs((time.time() if now is None else now) - int(timestamp)) > seconds(tolerance):
        raise InvalidSignature(f"it was sent at {timestamp}, which is too long ago or ahead: is the clock right?")
    attempt = lower.get("tickwheel-attempt", "1")
    return Webhook(
        id=id,
        timestamp=datetime.datetime.fromtimestamp(int(timestamp), datetime.timezone.utc),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 1,
        previous=lower.get("tickwheel-previous"),
        body=body,
    )


def sign(body: bytes, id: str, timestamp: str, secret: str) -> str:
    """The signature of a request as the service makes it, for tests of receivers.

    Raises:
        InvalidArgument: the secret is not base64.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument(f"a secret is base64 behind {_PREFIX!r}") from None
    digest = hmac.digest(key, b"%s.%s." % (id.encode(), timestamp.encode()) + body, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()
