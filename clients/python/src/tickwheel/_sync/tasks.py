# Written by scripts/unasync.py from _aio/tasks.py: change that file, then run `make clients`.
"""The calls about tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from .. import _decode, _encode, _forks
from .._call import Call
from .._compat import Unpack
from .._events import EventParts
from .._values import Duration, Instant, duration_text, instant_text, seconds
from ..errors import InvalidArgument, TickwheelError
from ..models import (
    CancelResponse,
    CancelTreeResponse,
    ListTasksAnswer,
    MessagesAnswer,
    ReopenAnswer,
    RescheduleResponse,
    RetryFailedAnswer,
    TaskEvent,
    TaskResponse,
    TaskState,
    TreeResponse,
    WhyResponse,
)
from ..requests import TaskRequest
from .group import Group
from .registering import Registering
from .transport import Transport

# The longest wait of one request that the service offers.
_WAIT_MAX = 60.0
_ONE = "/v1/tasks/{id}"
_OPEN = frozenset(
    ["scheduled", "enqueued", "claimed", "processing", "retrying", "waiting", "waiting_for_children"],
)
_ENDED = frozenset(["succeeded", "failed", "cancelled", "expired", "dead", "published"])
Drawing = Literal["mermaid", "dot", "svg"]


class Tasks(Group):
    """Register, read, move and end tasks."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._registering = Registering(transport)
        _forks.remember(self)

    def renew(self) -> None:
        """Begins anew in a process that was forked: called by the package itself."""
        self._transport.renew()
        self._registering = Registering(self._transport)

    def register(
        self,
        callback: str | None = None,
        payload: object = None,
        /,
        *,
        timeout: Duration | None = None,
        **task: Unpack[TaskRequest],
    ) -> TaskResponse:
        """Registers a task. Once this returns, the task is on disk and will start.

        `callback` names the handlers that may run it; a task may have `http` or `kafka` instead. `payload` is anything that
        JSON has a form of, a dataclass, a model of Pydantic, or bytes. Without `delay` and `start_time` it starts now.

        The client makes the id, so a request that it has to repeat is one task. Registrations of other threads or
        coroutines that come while a request is under way travel together with the next one. `timeout` is the time for the
        answer; that of the client by default.

        Raises:
            Refused: the task is wrong; `error.fields` says where.
            Conflict: its `key` names a live task, which is `error.existing`.
            Unavailable: the service cannot take it now.
            NoAnswer: nobody answered; with `error.sent` the task may be registered all the same.
        """
        fields: dict[str, Any] = {**task}
        if callback is not None:
            fields["callback"] = callback
        if payload is not None:
            fields["payload"] = payload
        return self._registering.register(_encode.request(fields), self._limit(timeout))

    def register_many(
        self, tasks: Iterable[TaskRequest], *, timeout: Duration | None = None
    ) -> Sequence[TaskResponse | TickwheelError]:
        """Registers tasks in their order. One that is wrong fails only itself: its result is the error.

        They are sent 256 at a time. When a request fails, the results of its tasks are that error, and the others go on.
        """
        return self._registering.register_all(tasks, self._limit(timeout))

    def get(self, id: str) -> TaskResponse:
        """A task, with its payload and its attempts.

        Raises:
            NotFound: there is none, or it ended longer ago than its retention.
        """
        answer, _ = self.get_tagged(id)
        return answer

    def get_tagged(self, id: str) -> tuple[TaskResponse, str | None]:
        """A task, and its `ETag` for `if_match`."""
        return self._transport.send_tagged(_get(id, 0))

    def wait(self, id: str, timeout: Duration = 60) -> TaskResponse:
        """Waits until a task has ended, at most `timeout`. Returns it as it is then: see `has_ended`."""
        end = time.monotonic() + seconds(timeout)
        while True:
            left = max(0.0, min(end - time.monotonic(), _WAIT_MAX))
            task = self._send(_get(id, left))
            if has_ended(task) or time.monotonic() >= end:
                return task

    def list(
        self,
        *,
        callback: str | None = None,
        state: TaskState | None = None,
        collection: str | None = None,
        labels: Mapping[str, str] | None = None,
        error: str | None = None,
        start_time_from: Instant | None = None,
        start_time_to: Instant | None = None,
        ended: bool | None = None,
        internal: bool | None = None,
        parent: str | None = None,
        roots: bool | None = None,
        schedule: str | None = None,
        page_size: int | None = None,
    ) -> Iterator[TaskResponse]:
        """The tasks that fit all filters, page by page as they are asked for; those that wait by their start."""
        query: dict[str, Any] = {
            "callback": callback,
            "state": state,
            "collection": collection,
            "error": error,
            "start_time_from": None if start_time_from is None else instant_text(start_time_from),
            "start_time_to": None if start_time_to is None else instant_text(start_time_to),
            "ended": ended,
            "internal": internal,
            "parent": parent,
            "roots": roots,
            "schedule": schedule,
            "page_size": page_size,
            **{f"label.{name}": value for name, value in (labels or {}).items()},
        }
        call: Call[ListTasksAnswer] = Call("listTasks", "GET", "/v1/tasks", ListTasksAnswer, query=query, repeatable=True)
        return self._items(call, lambda page: page.tasks)

    def find(self, callback: str, key: str) -> TaskResponse | None:
        """The live task of a key, or the last one; None when there is none."""
        query = {"callback": callback, "key": key}
        call: Call[ListTasksAnswer] = Call("listTasks", "GET", "/v1/tasks", ListTasksAnswer, query=query, repeatable=True)
        tasks = (self._send(call)).tasks
        return tasks[0] if tasks else None

    def cancel(self, id: str, *, tree: bool = False, timeout: Duration | None = None) -> CancelTreeResponse:
        """Cancels a task; with `tree`, all tasks below it as well. The answer tells which came first.

        Cancels of single tasks travel together, as registrations do.
        """
        if not tree:
            return self._registering.cancel(id, self._limit(timeout))
        call: Call[CancelTreeResponse] = Call(
            "cancelTask", "POST", _ONE + "/cancel", CancelTreeResponse, {"id": id}, body={"tree": True}, repeatable=True
        )
        return self._transport.send(call, self._limit(timeout))

    def cancel_many(
        self, ids: Sequence[str], *, timeout: Duration | None = None
    ) -> Sequence[CancelTreeResponse | TickwheelError]:
        """Cancels tasks; each has its own result, a task or an error."""
        return self._registering.cancel_all(ids, self._limit(timeout))

    def cancel_key(self, callback: str, key: str) -> CancelResponse:
        """Cancels the live task of a key."""
        body = {"callback": callback, "key": key}
        call: Call[CancelResponse] = Call(
            "cancelTaskByKey", "POST", "/v1/tasks:cancel", CancelResponse, body=body, repeatable=True
        )
        return self._send(call)

    def reschedule(
        self, id: str, *, start_time: Instant | None = None, delay: Duration | None = None, if_match: str | None = None
    ) -> RescheduleResponse:
        """Moves a task that waits to another start. The answer tells whether it was too late."""
        call: Call[RescheduleResponse] = Call(
            "rescheduleTask",
            "POST",
            _ONE + "/reschedule",
            RescheduleResponse,
            {"id": id},
            headers={"if-match": if_match},
            body=_start(start_time, delay),
        )
        return self._send(call)

    def reschedule_key(
        self,
        callback: str,
        key: str,
        *,
        start_time: Instant | None = None,
        delay: Duration | None = None,
        if_match: str | None = None,
    ) -> RescheduleResponse:
        """Moves the live task of a key."""
        call: Call[RescheduleResponse] = Call(
            "rescheduleTaskByKey",
            "POST",
            "/v1/tasks:reschedule",
            RescheduleResponse,
            headers={"if-match": if_match},
            body={"callback": callback, "key": key, **_start(start_time, delay)},
        )
        return self._send(call)

    def run(self, id: str, *, if_match: str | None = None) -> RescheduleResponse:
        """Starts a task now; a dead one gets its attempts once more."""
        call: Call[RescheduleResponse] = Call(
            "runTask", "POST", _ONE + "/run", RescheduleResponse, {"id": id}, headers={"if-match": if_match}
        )
        return self._send(call)

    def run_key(self, callback: str, key: str, *, if_match: str | None = None) -> RescheduleResponse:
        """Starts the live task of a key now."""
        call: Call[RescheduleResponse] = Call(
            "runTaskByKey",
            "POST",
            "/v1/tasks:run",
            RescheduleResponse,
            headers={"if-match": if_match},
            body={"callback": callback, "key": key},
        )
        return self._send(call)

    def redeliver(self, id: str, *, if_match: str | None = None) -> RescheduleResponse:
        """Delivers a task once more, as a copy where it has ended."""
        call: Call[RescheduleResponse] = Call(
            "redeliverTask", "POST", _ONE + "/redeliver", RescheduleResponse, {"id": id}, headers={"if-match": if_match}
        )
        return self._send(call)

    def tree(self, id: str, *, depth: int | None = None) -> TreeResponse:
        """A task and those below it, `depth` levels of them."""
        call: Call[TreeResponse] = Call(
            "getTree", "GET", _ONE + "/tree", TreeResponse, {"id": id}, query={"depth": depth}, repeatable=True
        )
        return self._send(call)

    def why(self, id: str) -> WhyResponse:
        """The causes that keep a task from running, in the order of time, and one sentence about the first."""
        call: Call[WhyResponse] = Call("explainTask", "GET", _ONE + "/why", WhyResponse, {"id": id}, repeatable=True)
        return self._send(call)

    def events(self, id: str, *, last_event_id: str | None = None) -> Iterator[TaskEvent]:
        """What becomes of a task: the attempts that have ended, its present state and each later one, to its end.

        A reader that comes back with the id of its last event, such as `0.1.claimed`, gets what it has not seen.
        """
        call: Call[bytes] = Call(
            "watchTask", "GET", _ONE + "/events", bytes, {"id": id}, headers={"last-event-id": last_event_id}
        )
        parts = EventParts()
        for piece in self._transport.stream(call):
            for kind, data in parts.feed(piece):
                if kind == "state":
                    yield _decode.answer(TaskEvent, data)

    def messages(self, id: str, *, attempt: int | None = None) -> MessagesAnswer:
        """What the worker of an attempt told, of the last one unless another is named."""
        call: Call[MessagesAnswer] = Call(
            "listMessages", "GET", _ONE + "/messages", MessagesAnswer, {"id": id}, query={"attempt": attempt}, repeatable=True
        )
        return self._send(call)

    def draw(self, id: str, format: Drawing = "mermaid", *, depth: int | None = None) -> str:
        """The tree of a task as a drawing."""
        query = {"format": format, "depth": depth}
        call: Call[str] = Call("getTree", "GET", _ONE + "/tree", str, {"id": id}, query=query, repeatable=True)
        return self._send(call)

    def retry_failed(self, id: str, *, failed_before: Instant | None = None) -> RetryFailedAnswer:
        """Runs the failed tasks of a tree again."""
        body = {} if failed_before is None else {"failed_before": instant_text(failed_before)}
        call: Call[RetryFailedAnswer] = Call(
            "retryFailed", "POST", _ONE + "/retry-failed", RetryFailedAnswer, {"id": id}, body=body
        )
        return self._send(call)

    def complete_children(self, id: str) -> TaskResponse:
        """Says that all children of a task were added, whose tree `children_within` holds open for them."""
        call: Call[TaskResponse] = Call(
            "completeChildren", "POST", _ONE + "/children-complete", TaskResponse, {"id": id}, repeatable=True
        )
        return self._send(call)

    def reopen(self, id: str, *, attempt: int | None = None) -> TaskResponse:
        """Lets a task of a tree that has succeeded run again; with `attempt`, only if that is its last one."""
        body = {} if attempt is None else {"attempt": attempt}
        call: Call[ReopenAnswer] = Call("reopenTask", "POST", _ONE + "/reopen", ReopenAnswer, {"id": id}, body=body)
        return (self._send(call)).task

    def _limit(self, timeout: Duration | None) -> float:
        return self._transport.options.timeout if timeout is None else seconds(timeout)


def has_ended(task: TaskResponse) -> bool:
    """Whether a task has ended: its own run, not its tree."""
    # Its end tells of states that a later service has.
    return task.state in _ENDED or (task.state not in _OPEN and task.end_time is not None)


def _get(id: str, wait: float) -> Call[TaskResponse]:
    query: dict[str, Any] = {"view": "FULL"}
    if wait > 0:
        query["wait"] = duration_text(wait)
    return Call("getTask", "GET", _ONE, TaskResponse, {"id": id}, query=query, repeatable=True, wait=wait)


def _start(start_time: Instant | None, delay: Duration | None) -> dict[str, Any]:
    """The new start of a task as a request has it."""
    if (start_time is None) == (delay is None):
        raise InvalidArgument("give one of start_time and delay")
    return {"start_time": instant_text(start_time)} if start_time is not None else {"delay": duration_text(delay or 0)}
