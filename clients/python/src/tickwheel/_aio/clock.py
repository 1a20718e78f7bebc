"""The clock of a service that was started for tests."""

from __future__ import annotations

import datetime
import time

from .. import _encode
from .._call import Call
from .._values import Duration, Instant, milliseconds, seconds
from ..errors import DeadlineExceeded
from ..models import AdvanceClockResponse, ClockResponse
from .group import Group

_LIMIT = 120
"""Seconds that one call may take: it waits for workers, and for what the service itself has to do."""


class Clock(Group):
    """Moves the clock forward. Only `tickwheel dev --test-clock`, which `tickwheel.testing` starts, has one."""

    async def read(self) -> ClockResponse:
        """The time that the service shows."""
        call: Call[ClockResponse] = Call("getTestClock", "GET", "/v1/dev/clock", ClockResponse, repeatable=True)
        return await self._send(call)

    async def advance(
        self, by: Duration, *, settle_within: Duration | None = None, timeout: Duration = 300
    ) -> AdvanceClockResponse:
        """Moves it forward, and stops at each due time on the way until workers have done what came due.

        Args:
            by: how far.
            settle_within: how long it waits at each stop for workers, by a real clock; 5 s by default.
            timeout: the real time that all of this may take.

        Raises:
            DeadlineExceeded: it took longer.
        """
        end = time.monotonic() + seconds(timeout)
        to = (await self.read()).time + datetime.timedelta(milliseconds=milliseconds(by))
        fired = unsettled = 0
        while True:
            call: Call[AdvanceClockResponse] = Call(
                "advanceTestClock",
                "POST",
                "/v1/dev/clock:advance",
                AdvanceClockResponse,
                body=_encode.request({"to": to, "settle_within": settle_within}),
                repeatable=True,
                wait=_LIMIT,
            )
            answer = await self._send(call)
            fired += answer.fired
            unsettled += answer.unsettled
            if answer.done:
                answer.fired, answer.unsettled = fired, unsettled
                return answer
            if time.monotonic() > end:
                raise DeadlineExceeded("the server", f"its clock has come to {answer.reached} in time", sent=True)

    async def set(self, time: Instant) -> ClockResponse:
        """Moves it forward at once, as if the service had been off meanwhile."""
        call: Call[ClockResponse] = Call(
            "setTestClock", "POST", "/v1/dev/clock:set", ClockResponse, body=_encode.request({"time": time})
        )
        return await self._send(call)
