"""Polls for the tasks of one callback: as many as have a free slot, one poll at a time.

Tasks come claimed. A lease counts from the sending of the poll plus the wait that the service reports, so a slow answer
shortens a lease and never stretches it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from .._backoff import Backoff
from .._sync.client import Client
from ..errors import ProblemError, TickwheelError
from ..models import PollAnswer
from .attempt import Attempt
from .handler import Handler

log = logging.getLogger("tickwheel.worker")

# Few requests, and within the idle limits of usual proxies.
POLL_WAIT = 30.0
_TASKS_MAX = 1000


class Slots:
    """The places of a callback: how many handlers may run."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()
        self._closed = False

    def take(self) -> int:
        """Waits for a free place. Returns how many are free; zero once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._closed)
            return 0 if self._closed else min(self._free, _TASKS_MAX)

    def use(self) -> None:
        """Takes a place."""
        with self._changed:
            self._free -= 1

    def free(self) -> None:
        """Gives a place back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the wait for places."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Poller:
    """Polls until it is stopped."""

    def __init__(self, client: Client, name: str, version: str | None, handler: Handler, begin: Callable[..., None]) -> None:
        self._client, self._name, self._version = client, name, version
        self._handler, self._begin = handler, begin
        self.slots = Slots(handler.concurrency)
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"tickwheel-poll-{handler.callback}", daemon=True)

    def start(self) -> None:
        """Begins to poll."""
        self.thread.start()

    def close(self, limit: float) -> None:
        """Has nothing to give back."""

    def stop(self) -> None:
        """Polls no more. A poll that is under way has to be ended at the service: `leave`."""
        self._stopping.set()
        self.slots.close()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set() and (free := self.slots.take()):
            sent = time.monotonic()
            try:
                answer = self._client.worker.poll(
                    self._name, [self._handler.callback], max_tasks=free, wait=POLL_WAIT, version=self._version
                )
                self._start(answer, sent)
                backoff.succeeded()
            except Exception as error:
                self._failed(error, backoff)

    def _failed(self, error: Exception, backoff: Backoff) -> None:
        if self._stopping.is_set():
            return
        if backoff.failures == 0:
            unexpected: Any = None if isinstance(error, TickwheelError) else error
            log.error("cannot poll for %s, trying again: %s", self._handler.callback, error, exc_info=unexpected)
        asked = error.retry_after if isinstance(error, ProblemError) else None
        self._stopping.wait(backoff.failed(asked))

    def _start(self, answer: PollAnswer, sent: float) -> None:
        lease_start = sent + (answer.waited.total_seconds() if answer.waited else 0)
        for task in answer.tasks:
            self.slots.use()
            attempt = Attempt(task, lease_start, self._handler.attempt_timeout)
            self._begin(self._handler, attempt, self.slots, self._stopping.is_set())
