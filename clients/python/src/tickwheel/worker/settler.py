"""The reports of how attempts ended, from a thread of their own.

One request is under way, and what ends meanwhile is the next batch. A report is repeated until it is answered, or until it can
have no effect any more. Until then its attempt has heartbeats: work that is done is not done again because its report was late.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from .. import _encode
from .._backoff import Backoff
from .._batch import BYTES_MAX, ITEMS_MAX, joined
from .._call import Call
from .._sync.client import Client
from ..errors import NoAnswer, ProblemError, TickwheelError, UnexpectedAnswer
from ..models import SettleAnswer, SettleResult
from .attempt import Attempt
from .heart import Heart

log = logging.getLogger("tickwheel.worker")

# A report is of use some time behind the lease: while nobody else has claimed the task it counts.
_GRACE = 30.0
_CALL_LIMIT = 10.0


@dataclass
class Report:
    """How an attempt ended, as the service reads it."""

    attempt: Attempt
    item: bytes


class Settler:
    """Sends reports until it is stopped and has sent all."""

    def __init__(self, client: Client, worker: str, heart: Heart) -> None:
        self._client, self._heart = client, heart
        self._more = b',"worker":' + _encode.dumps(worker).encode()
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._waiting: deque[Report] = deque()
        self._thread = threading.Thread(target=self._run, name="tickwheel-settle", daemon=True)
        self._thread.start()

    def report(self, attempt: Attempt, outcome: dict[str, Any]) -> None:
        """Has a report sent."""
        fields = {"id": attempt.task.id, "attempt": attempt.task.attempt, **outcome}
        self._reports.put(Report(attempt, _encode.dumps(fields).encode()))

    def stop(self, limit: float) -> bool:
        """Waits until all is reported, at most `limit` seconds. Tells whether it is."""
        self._reports.put(None)
        self._thread.join(limit)
        return not self._thread.is_alive()

    def _run(self) -> None:
        backoff = Backoff()
        ends = False
        while not ends or self._waiting:
            ends = self._collect(ends) or ends
            batch = self._take()
            if not batch:
                continue
            try:
                again, asked = self._send(batch), None
                if not again:
                    backoff.succeeded()
                    continue
            except (NoAnswer, UnexpectedAnswer) as error:  # a proxy may answer while a server is replaced
                log.warning("%s reports wait: %s", len(batch), error)
                again, asked = batch, None
            except ProblemError as error:
                if not error.retryable:
                    again, asked = self._refused(batch, error), 0.0
                else:
                    again, asked = batch, error.retry_after
            except Exception:
                log.exception("%s reports wait after an error", len(batch))
                again, asked = batch, None
            self._waiting.extendleft(reversed(again))
            if asked != 0.0:
                time.sleep(backoff.failed(asked))

    def _collect(self, ends: bool) -> bool:
        """Gathers what there is; waits for it when there is nothing. Tells whether no more will come."""
        if not self._waiting and not ends:
            first = self._reports.get()
            if first is None:
                return True
            self._waiting.append(first)
        while len(self._waiting) < ITEMS_MAX:
            try:
                report = self._reports.get_nowait()
            except queue.Empty:
                break
            if report is None:
                return True
            self._waiting.append(report)
        return False

    def _take(self) -> list[Report]:
        batch: list[Report] = []
        size, now = 0, time.monotonic()
        while self._waiting and len(batch) < ITEMS_MAX:
            report = self._waiting[0]
            size += len(report.item) + 1
            if batch and size > BYTES_MAX:
                break
            self._waiting.popleft()
            if now >= report.attempt.deadline + _GRACE:
                log.error("task %s, attempt %s: gave up its report", *report.attempt.key)
                self._heart.remove(report.attempt)
                continue
            batch.append(report)
        return batch

    def _send(self, batch: list[Report]) -> list[Report]:
        """Sends a batch. Returns the reports to send again."""
        body = joined("tasks", [report.item for report in batch], self._more)
        call: Call[SettleAnswer] = Call("settle", "POST", "/v1/worker/settle", SettleAnswer, body=body, repeatable=True)
        results = self._client.call(call, _CALL_LIMIT).results
        if len(results) != len(batch):
            raise UnexpectedAnswer("the server", f"{len(results)} results for {len(batch)} reports")
        return [report for report, result in zip(batch, results, strict=True) if not self._is_done(report, result)]

    def _is_done(self, report: Report, result: SettleResult) -> bool:
        key = report.attempt.key
        if result.status == "lost":
            log.warning("task %s, attempt %s: was lost before its report arrived (%s)", *key, result.reason)
        elif result.status == "error":
            if result.error and result.error.retryable:
                return False
            log.error("task %s, attempt %s: the report is refused: %s", *key, result.error)
        self._heart.remove(report.attempt)
        return True

    def _refused(self, batch: list[Report], error: TickwheelError) -> list[Report]:
        """Finds the report that makes a batch wrong: each is sent alone. Returns those that the service cannot take now."""
        again = []
        for report in batch if len(batch) > 1 else []:
            try:
                again += self._send([report])
            except TickwheelError as own:
                if own.retryable:
                    again.append(report)
                else:
                    self._give_up(report, own)
        if len(batch) == 1:
            self._give_up(batch[0], error)
        return again

    def _give_up(self, report: Report, error: TickwheelError) -> None:
        log.error("task %s, attempt %s: the report is refused: %s", *report.attempt.key, error)
        self._heart.remove(report.attempt)
