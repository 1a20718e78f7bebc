"""Registrations and cancels, which travel together with those of other callers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from .. import _encode
from .._backoff import Backoff
from .._batch import BYTES_MAX, ITEMS_MAX, joined
from .._call import Call
from .._ids import IdMaker
from .._waits import acquire_async, lock_async, sleep_async
from ..errors import DeadlineExceeded, Refused, TickwheelError, Unavailable, UnexpectedAnswer, of_problem
from ..models import BatchCancelResponse, BatchCreateResponse, CancelTreeResponse, IdsResponse, TaskResponse
from ..requests import TaskRequest
from .coalesce import AsyncCoalescer
from .transport import LAST_TRY, AsyncTransport

R = TypeVar("R")


class Registering:
    """Makes ids, and sends what concurrent callers register and cancel as batches."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._ids = IdMaker()
        self._asking = lock_async()
        self._not_told: TickwheelError | None = None
        self._registrations: AsyncCoalescer[TaskResponse] = AsyncCoalescer(self._send_registrations)
        self._cancels: AsyncCoalescer[CancelTreeResponse] = AsyncCoalescer(self._send_cancels)

    async def register(self, task: dict[str, Any], limit: float) -> TaskResponse:
        """Registers a task within `limit` seconds."""
        end = time.monotonic() + limit
        is_fixed = await self._fix([task], end)
        item = _encode.dumps(task).encode()
        if not is_fixed:
            # Sent twice it could be two tasks, so it goes alone and its error says whether it may have arrived.
            return await self._transport.send(_create(item, is_fixed), end - time.monotonic())
        return await _until(self._registrations, item, end)

    async def register_all(self, tasks: Iterable[TaskRequest], limit: float) -> Sequence[TaskResponse | TickwheelError]:
        """Registers tasks in their order, up to 256 a request, and `limit` seconds for each. Each has its own result."""
        requests = [_encode.request(task) for task in tasks]
        is_fixed = await self._fix(requests, time.monotonic() + limit)
        results: list[TaskResponse | TickwheelError] = []
        batch: list[bytes] = []
        size = 0
        for item in [_encode.dumps(request).encode() for request in requests]:
            if batch and (len(batch) == ITEMS_MAX or size + len(item) > BYTES_MAX):
                results += await _or_error(self._create_batch, batch, limit, is_fixed)
                batch, size = [], 0
            batch.append(item)
            size += len(item) + 1
        if batch:
            results += await _or_error(self._create_batch, batch, limit, is_fixed)
        return results

    async def cancel(self, id: str, limit: float) -> CancelTreeResponse:
        """Cancels a task, not its tree."""
        return await _until(self._cancels, _encode.dumps(id).encode(), time.monotonic() + limit)

    async def cancel_all(self, ids: Sequence[str], limit: float) -> Sequence[CancelTreeResponse | TickwheelError]:
        """Cancels tasks; each has its own result."""
        results: list[CancelTreeResponse | TickwheelError] = []
        for first in range(0, len(ids), ITEMS_MAX):
            items = [_encode.dumps(id).encode() for id in ids[first : first + ITEMS_MAX]]
            results += await _or_error(self._cancel_batch, items, limit)
        return results

    async def _fix(self, tasks: list[dict[str, Any]], end: float) -> bool:
        """Makes the ids of tasks. Tells whether all may be sent twice."""
        if self._ids.is_due():
            # One caller asks, and the others wait for that; each no longer than it has time.
            if not await acquire_async(self._asking, end - time.monotonic()):
                raise self._not_told or DeadlineExceeded("the server", "it has not told its time", sent=False)
            try:
                if self._not_told is not None and end - time.monotonic() < LAST_TRY:
                    raise self._not_told
                await self._ask(end)
            finally:
                self._asking.release()
        return all([self._ids.fix(task) for task in tasks])

    async def _ask(self, end: float) -> None:
        """Asks the service for its time, unless another caller just did.

        Raises:
            TickwheelError: it is away, so it would not take the task either.
        """
        asked = time.monotonic()
        if not self._ids.is_due():
            return
        call: Call[IdsResponse] = Call("getIds", "GET", "/v1/ids", IdsResponse, repeatable=True)
        try:
            answer = await self._transport.send(call, end - asked)
            self._ids.learn(answer, asked)
            self._not_told = None
        except TickwheelError as error:
            if error.retryable:
                self._not_told = error
                raise
            self._ids.learn(None, asked)  # a service that does not tell makes the ids itself

    async def _send_registrations(self, items: list[bytes], limit: float) -> list[TaskResponse | Exception]:
        end = time.monotonic() + limit
        if len(items) > 1:
            try:
                return [*await self._create_batch(items, limit, True)]
            except Refused as error:
                if error.status == 401:
                    return [error] * len(items)
                # One of them made the whole batch wrong: each is judged by itself.
            except TickwheelError as error:
                return [error] * len(items)
        results: list[TaskResponse | Exception] = []
        for item in items:
            try:
                task = await self._transport.send(_create(item, True), end - time.monotonic())
                results.append(task)
            except TickwheelError as error:
                results.append(error)
        return results

    async def _send_cancels(self, items: list[bytes], limit: float) -> list[CancelTreeResponse | Exception]:
        return [*await _or_error(self._cancel_batch, items, limit)]

    async def _create_batch(self, items: list[bytes], limit: float, repeatable: bool) -> list[TaskResponse | TickwheelError]:
        call: Call[BatchCreateResponse] = Call(
            "batchCreateTasks",
            "POST",
            "/v1/tasks:batchCreate",
            BatchCreateResponse,
            body=joined("tasks", items),
            repeatable=repeatable,
        )
        answer = await self._transport.send(call, limit)
        results = _one_each(answer.results, len(items))
        return [one.task or of_problem(one.error, one.error.status) for one in results]

    async def _cancel_batch(self, items: list[bytes], limit: float) -> list[CancelTreeResponse | TickwheelError]:
        call: Call[BatchCancelResponse] = Call(
            "batchCancelTasks",
            "POST",
            "/v1/tasks:batchCancel",
            BatchCancelResponse,
            body=joined("ids", items),
            repeatable=True,
        )
        answer = await self._transport.send(call, limit)
        results: list[CancelTreeResponse | TickwheelError] = []
        for one in _one_each(answer.results, len(items)):
            if one.error:
                results.append(of_problem(one.error, one.error.status))
            else:
                results.append(CancelTreeResponse(outcome=one.outcome, reason=one.reason, task=one.task))
        return results


async def _or_error(
    send: Callable[..., Awaitable[list[R | TickwheelError]]], items: list[bytes], limit: float, *more: bool
) -> Sequence[R | TickwheelError]:
    """The results of a batch, or its error for each: what earlier batches have done must not be lost with it."""
    try:
        results = await send(items, limit, *more)
    except TickwheelError as error:
        return [error] * len(items)
    return results


async def _until(coalescer: AsyncCoalescer[R], item: bytes, end: float) -> R:
    """Has an item sent, and sent again while the service asks for patience with it, until its caller's time is over."""
    backoff = Backoff()
    while True:
        try:
            return await coalescer.call(item, end - time.monotonic())
        except Unavailable as error:
            wait = backoff.failed(error.retry_after)
            if not error.problem.retryable or time.monotonic() + wait >= end - LAST_TRY:
                raise
            await sleep_async(wait)


def _create(item: bytes, repeatable: bool) -> Call[TaskResponse]:
    return Call("createTask", "POST", "/v1/tasks", TaskResponse, body=item, repeatable=repeatable)


def _one_each(results: list[Any], count: int) -> list[Any]:
    """The results of a batch, when there is one of each item."""
    good = [one for one in results if one.error or one.task]
    if len(good) != count:
        raise UnexpectedAnswer("the server", f"{len(good)} results for {count} items")
    return good
