"""Where the service is, and how it is reached."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from ._values import Duration, seconds
from ._version import __version__
from .errors import InvalidArgument

DEFAULT_SERVER = "http://127.0.0.1:7420"
# A dead host must not use up the time of the next one.
CONNECT_LIMIT = 2.0


@dataclass(frozen=True)
class Options:
    """What a client is made of: checked addresses, headers, the time limit of a call in seconds."""

    servers: tuple[str, ...]
    headers: dict[str, str]
    timeout: float
    verify: ssl.SSLContext | bool

    @classmethod
    def checked(
        cls,
        servers: str | Iterable[str] | None,
        api_key: str | None,
        timeout: Duration,
        verify: ssl.SSLContext | bool,
    ) -> Options:
        """Checks what a user gives.

        Raises:
            InvalidArgument: an address that is none, a key that no header can carry, a time limit of zero.
        """
        if servers is None:
            servers = os.environ.get("TICKWHEEL_SERVER") or DEFAULT_SERVER
        given = [servers] if isinstance(servers, str) else list(servers)
        addresses = tuple(_address(one.strip()) for text in given for one in text.split(",") if one.strip())
        if not addresses:
            raise InvalidArgument(f"no server was given: expected an address such as {DEFAULT_SERVER}")
        key = api_key if api_key is not None else os.environ.get("TICKWHEEL_API_KEY")
        headers = {"user-agent": f"tickwheel-python/{__version__}"}
        if key:
            if not key.isascii() or not key.isprintable():
                raise InvalidArgument("the API key has characters that no key has")
            headers["authorization"] = f"Bearer {key}"
        limit = seconds(timeout)
        if limit <= 0:
            raise InvalidArgument("the timeout must be longer than zero")
        # Certificates are read when they are needed: that takes longer than a call.
        is_secure = any(address.startswith("https") for address in addresses)
        return cls(addresses, headers, limit, verify if is_secure else False)

    def http_timeout(self, limit: float) -> httpx2.Timeout:
        """The time limits of one request that may take `limit` seconds."""
        return httpx2.Timeout(limit, connect=min(limit, CONNECT_LIMIT))


def _address(text: str) -> str:
    # As people write it: "localhost:7420".
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidArgument(f"{text!r} is not an address of a server; expected one such as {DEFAULT_SERVER}")
    return address.rstrip("/")
