"""Sends calls: time limits, repetitions, the next server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx2

from .. import _tracing
from .._backoff import Backoff
from .._call import Answer, Call, asks_another_server, failure, may_be_repeated
from .._options import Options
from .._waits import sleep_async
from ..errors import DeadlineExceeded, NoAnswer, ProblemError, TickwheelError, UnexpectedAnswer

T = TypeVar("T")

# Of a list of servers one that hangs must leave time for the others.
_SHARE_MIN = 1.0
# With less time than this a call is not tried again.
LAST_TRY = 0.1


class AsyncTransport:
    """Connections to the servers, tried in order from the one that answered last.

    A call that fails is repeated within its time limit where that does no harm: at once at the next server, later at the
    same ones, with jitter, and after what `Retry-After` says.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._preferred = 0
        self.renew()

    def renew(self) -> None:
        """Makes connections anew, without closing those that there are: another process has them."""
        # Proxies and passwords of the environment are not for a service within one's own network.
        self._http = httpx2.AsyncClient(
            verify=self.options.verify,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=15),
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def send(self, call: Call[T], limit: float | None = None) -> T:
        """Makes a call within `limit` seconds and reads its answer."""
        answer, _ = await self.send_tagged(call, limit)
        return answer

    async def send_tagged(self, call: Call[T], limit: float | None = None) -> tuple[T, str | None]:
        """Makes a call. Returns its answer and the `ETag` of it."""
        limit = self.options.timeout if limit is None else limit
        end = time.monotonic() + limit + call.wait
        backoff = Backoff()
        last: TickwheelError | None = None
        while True:
            try:
                server, answer = await self._round(call, end)
                return call.read(server, answer), answer.headers.get("etag")
            except TickwheelError as error:
                if isinstance(error, DeadlineExceeded) and not error.sent and last is not None:
                    raise last from None  # it says more than that the time is over
                left = end - call.wait - time.monotonic()
                asked = error.retry_after if isinstance(error, ProblemError) else None
                wait = backoff.failed(asked)
                if asked is None:  # the last tries come close to the end
                    wait = min(wait, left / 2)
                if not may_be_repeated(call, error) or left < LAST_TRY or wait >= left:
                    raise
                last = error
                await sleep_async(wait)

    async def _round(self, call: Call[T], end: float) -> tuple[str, Answer]:
        """Tries each server once. Returns the first answer; raises the last failure."""
        servers = self.options.servers
        first, count = self._preferred, len(self.options.servers)
        for step in range(count):
            place = (first + step) % count
            left = end - time.monotonic()
            share = left if step == count - 1 else max((left - call.wait) / (count - step) + call.wait, _SHARE_MIN)
            try:
                answer = await self._once(call, servers[place], min(share, left))
                call.check(servers[place], answer)
            except TickwheelError as error:
                if step == count - 1 or not asks_another_server(call, error) or time.monotonic() >= end:
                    raise
                continue
            self._preferred = place
            return servers[place], answer
        raise AssertionError("there is at least one server")

    async def _once(self, call: Call[T], server: str, limit: float) -> Answer:
        if limit <= 0:
            raise DeadlineExceeded(server, "the time was over before it was asked", sent=False)
        request = call.within(server, {**self.options.headers, **_tracing.headers()})
        end = time.monotonic() + limit
        try:
            async with self._http.stream(timeout=self.options.http_timeout(limit), **request) as response:
                pieces = []
                async for piece in response.aiter_bytes():
                    pieces.append(piece)
                    if time.monotonic() >= end:  # each piece came in time, and all together did not
                        raise DeadlineExceeded(server, f"the answer took more than {limit:.3g} s", sent=True)
                return Answer(response.status_code, response.headers, b"".join(pieces))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NoAnswer(server, _reason(error), sent=False) from error
        except httpx2.TimeoutException as error:
            raise DeadlineExceeded(server, f"nothing came within {limit:.3g} s", sent=True) from error
        except (httpx2.DecodingError, httpx2.TooManyRedirects) as error:
            raise UnexpectedAnswer(server, _reason(error)) from error
        except httpx2.HTTPError as error:
            raise NoAnswer(server, _reason(error), sent=True) from error

    async def stream(self, call: Call[Any]) -> AsyncIterator[bytes]:
        """Makes a call whose answer is read piece by piece. The time limit holds for each piece."""
        server = self.options.servers[self._preferred]
        request = call.within(server, self.options.headers)
        try:
            timeout = self.options.http_timeout(self.options.timeout)
            async with self._http.stream(timeout=timeout, **request) as response:
                if not response.is_success:
                    raise failure(server, Answer(response.status_code, response.headers, await response.aread()))
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.HTTPError as error:
            raise NoAnswer(server, _reason(error), sent=True) from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
