# Written by scripts/unasync.py from _aio/worker_calls.py: change that file, then run `make clients`.
"""The calls of workers, for workers of one's own; `tickwheel.Worker` makes them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._call import Call
from .._values import Duration, duration_text, seconds
from ..models import (
    ClaimAnswer,
    ClaimResult,
    HeartbeatAnswer,
    HeartbeatResult,
    LeaveAnswer,
    PollAnswer,
    ReopenAnswer,
    SettleAnswer,
    SettleResult,
    SubscribeAnswer,
    TaskResponse,
)
from ..requests import ClaimItem, HeartbeatItem, SettleItem
from .group import Group


class WorkerCalls(Group):
    """Each may be repeated: `(id, attempt)` is a fence."""

    def poll(
        self,
        worker: str,
        callbacks: Sequence[str],
        *,
        max_tasks: int | None = None,
        wait: Duration = 30,
        version: str | None = None,
    ) -> PollAnswer:
        """Asks for due tasks of some callbacks; they come claimed."""
        body: dict[str, Any] = {"worker": worker, "callbacks": [*callbacks], "wait": duration_text(wait)}
        if max_tasks is not None:
            body["max_tasks"] = max_tasks
        if version is not None:
            body["version"] = version
        # A broken connection gives its tasks back, so a poll may be repeated.
        call: Call[PollAnswer] = Call(
            "poll", "POST", "/v1/worker/poll", PollAnswer, body=body, repeatable=True, wait=seconds(wait)
        )
        return self._send(call)

    def leave(self, worker: str, *, limit: float | None = None) -> None:
        """Has the polls of a worker answered at once."""
        call: Call[LeaveAnswer] = Call("leave", "POST", "/v1/worker/leave", LeaveAnswer, body={"worker": worker}, repeatable=True)
        self._transport.send(call, limit)

    def claim(self, worker: str, messages: Sequence[ClaimItem], *, view: str | None = None) -> Sequence[ClaimResult]:
        """Claims tasks whose messages came through Kafka."""
        body: dict[str, Any] = {"worker": worker, "messages": [*messages]}
        if view is not None:
            body["view"] = view
        call: Call[ClaimAnswer] = Call("claim", "POST", "/v1/worker/claim", ClaimAnswer, body=body, repeatable=True)
        return (self._send(call)).results

    def heartbeat(self, worker: str, tasks: Sequence[HeartbeatItem], *, limit: float | None = None) -> Sequence[HeartbeatResult]:
        """Holds leases for another `heartbeat_timeout`."""
        call: Call[HeartbeatAnswer] = Call(
            "heartbeat",
            "POST",
            "/v1/worker/heartbeat",
            HeartbeatAnswer,
            body={"worker": worker, "tasks": [*tasks]},
            repeatable=True,
        )
        return (self._transport.send(call, limit)).results

    def settle(self, worker: str, tasks: Sequence[SettleItem], *, limit: float | None = None) -> Sequence[SettleResult]:
        """Reports how attempts ended."""
        call: Call[SettleAnswer] = Call(
            "settle",
            "POST",
            "/v1/worker/settle",
            SettleAnswer,
            body={"worker": worker, "tasks": [*tasks]},
            repeatable=True,
        )
        return (self._transport.send(call, limit)).results

    def subscribe(self, worker: str, callbacks: Sequence[str]) -> SubscribeAnswer:
        """The topics and groups of callbacks, for workers that consume Kafka."""
        body = {"worker": worker, "callbacks": [*callbacks]}
        call: Call[SubscribeAnswer] = Call(
            "subscribe", "POST", "/v1/worker/subscribe", SubscribeAnswer, body=body, repeatable=True
        )
        return self._send(call)

    def reopen(self, worker: str, id: str, attempt: int) -> TaskResponse:
        """Takes up a task of a tree again that this worker had, and that has succeeded."""
        body = {"worker": worker, "id": id, "attempt": attempt}
        call: Call[ReopenAnswer] = Call("reopen", "POST", "/v1/worker/reopen", ReopenAnswer, body=body)
        return (self._send(call)).task
