"""What runs while a worker runs: pollers, threads for handlers, heartbeats, reports."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable

from .. import _tracing
from .._sync.client import Client
from ..errors import TickwheelError
from . import handler as ends
from .attempt import Attempt
from .handler import Handler
from .heart import Heart
from .kafka.line import Line
from .kafka.reader import KafkaReader
from .kafka.source import KafkaSource
from .outcomes import Interrupted, Stopped
from .poller import Poller, Slots
from .settler import Settler
from .threads import Interruptible, Threads

log = logging.getLogger("tickwheel.worker")

# How long a poll may take to end when the worker stops; then its connection is dropped, and the service takes its tasks back.
_LEAVE_LIMIT = 2.0
# How long handlers that were interrupted have for their `finally`.
_DROP_LIMIT = 2.0
_LAST_REPORTS_LIMIT = 10.0


class Engine:
    """One run of a worker."""

    def __init__(
        self,
        client: Client,
        name: str,
        version: str | None,
        handlers: Iterable[Handler],
        loop: asyncio.AbstractEventLoop | None,
        source: KafkaSource | None = None,
    ) -> None:
        self._client, self._name = client, name
        # Connections of their own, and a time limit of their own.
        self._heart_client = client.sibling()
        self._heart = Heart(self._heart_client, name)
        self._settler = Settler(client, name, self._heart)
        self._threads = Threads()
        self._own_loop: threading.Thread | None = None
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._ended = threading.Condition()
        handlers = list(handlers)
        if loop is None and any(handler.is_async for handler in handlers):
            self._loop = asyncio.new_event_loop()
            self._own_loop = threading.Thread(target=self._loop.run_forever, name="tickwheel-async", daemon=True)
            self._own_loop.start()
        self._pollers: list[Poller | KafkaReader] = [
            Poller(client, name, version, handler, self._begin)
            if source is None
            else KafkaReader(client, name, handler, self._begin, source)
            for handler in handlers
        ]
        for poller in self._pollers:
            poller.start()

    def stop(self, drain_timeout: float) -> None:
        """Takes no more tasks, gives back what has not begun, waits for the rest; then interrupts that and gives it back."""
        for poller in self._pollers:
            poller.stop()
        self._leave()
        if not self._drained(drain_timeout):
            log.warning("%s handlers did not end within %.3g s: their tasks are given back", self._running, drain_timeout)
            for attempt in self._heart.attempts():
                attempt.interrupt(Stopped)
            if not self._drained(_DROP_LIMIT):
                log.error("%s handlers block their threads and cannot be interrupted: their leases run out", self._running)
        if not self._settler.stop(_LAST_REPORTS_LIMIT):
            log.error("not every outcome could be reported: the service comes back to the tasks")
        for poller in self._pollers:
            poller.close(_LEAVE_LIMIT)
        self._heart.stop()
        self._heart_client.close()
        self._threads.stop()
        if self._own_loop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop.join(_DROP_LIMIT)
            if not self._own_loop.is_alive():
                self._loop.close()

    def _leave(self) -> None:
        """Ends the polls that are under way."""
        end = time.monotonic() + _LEAVE_LIMIT
        while any(poller.thread.is_alive() for poller in self._pollers) and time.monotonic() < end:
            try:
                self._heart_client.worker.leave(self._name, limit=max(end - time.monotonic(), 0.1))
            except TickwheelError as error:
                log.debug("could not end the polls: %s", error)
            for poller in self._pollers:  # one that came just behind needs another word
                poller.thread.join(0.1)

    def _drained(self, limit: float) -> bool:
        with self._ended:
            return self._ended.wait_for(lambda: self._running == 0, limit)

    def _begin(self, handler: Handler, attempt: Attempt, slots: Slots | Line, stopping: bool) -> None:
        """Begins an attempt, or gives it back when the worker stops."""
        self._heart.add(attempt)
        if stopping:
            self._settler.report(attempt, ends.give_back())
            slots.free()
            return
        with self._ended:
            self._running += 1
        if handler.is_async and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._begin_async, self._loop, handler, attempt, slots)
            except RuntimeError:  # the program has closed its loop
                self._end(attempt, slots, ends.give_back())
        else:
            self._threads.submit(lambda: self._run_in_thread(handler, attempt, slots))

    def _end(self, attempt: Attempt, slots: Slots | Line, report: ends.Report | None) -> None:
        if report is None:
            self._heart.remove(attempt)
            log.warning("task %s, attempt %s: broken off, it may run elsewhere", *attempt.key)
        else:
            self._settler.report(attempt, report)
        slots.free()
        with self._ended:
            self._running -= 1
            self._ended.notify_all()

    def _run_in_thread(self, handler: Handler, attempt: Attempt, slots: Slots | Line) -> None:
        report: ends.Report | None = None
        task = attempt.task
        guard = Interruptible()
        try:
            if attempt.begin(guard.interrupt):
                try:
                    with _tracing.attempt(handler.callback, task.id, task.attempt, task.traceparent):
                        report = ends.succeeded(handler.call(attempt))
                finally:
                    guard.leave()
        except Interrupted:
            pass  # below
        except BaseException as error:
            report = ends.raised(error)
        why = attempt.end()
        if report is None and why is not None:
            report = ends.interrupted(why)
        self._end(attempt, slots, report)

    def _begin_async(self, loop: asyncio.AbstractEventLoop, handler: Handler, attempt: Attempt, slots: Slots | Line) -> None:
        task = loop.create_task(self._run_async(loop, handler, attempt, slots))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_async(self, loop: asyncio.AbstractEventLoop, handler: Handler, attempt: Attempt, slots: Slots | Line) -> None:
        running = asyncio.current_task(loop)

        def cancel(why: type[Interrupted]) -> None:
            if running is not None:
                loop.call_soon_threadsafe(running.cancel)

        report: ends.Report | None = None
        task = attempt.task
        try:
            # Here, and not before the coroutine runs: one that is cancelled before would give nothing back.
            if attempt.begin(cancel):
                with _tracing.attempt(handler.callback, task.id, task.attempt, task.traceparent):
                    report = ends.succeeded(await handler.call(attempt))
        except asyncio.CancelledError:
            pass  # below
        except Exception as error:
            report = ends.raised(error)
        why = attempt.end()
        if report is None:
            report = ends.interrupted(why) if why else ends.raised(asyncio.CancelledError("the handler cancelled itself"))
        self._end(attempt, slots, report)
