"""Consumes the messages of one callback, and claims them.

Two threads: one consumes and commits, and never waits for the service, so that the membership of the group is kept; the other
claims. A message is done when its claim says to forget it, or when its attempt has ended and is reported.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..._backoff import Backoff
from ..._sync.client import Client
from ...errors import ProblemError, TickwheelError, UnexpectedAnswer
from ...models import ClaimedTask, ClaimResult
from ...requests import ClaimItem
from ..attempt import Attempt
from ..handler import Handler, fill
from .line import Line, Waiting
from .message import TaskMessage, Unreadable, check_signature
from .offsets import Offsets, Place
from .source import KafkaSource

log = logging.getLogger("tickwheel.worker")

_CONSUME_WAIT = 0.1
# A message that may be claimed only later is held so long; the service publishes it again by then.
_HOLD_MAX = 5.0
_HOLD_MIN = 0.02
_FAILURES_MAX = 5


class KafkaReader:
    """Reads until it is stopped; the consumer stays until it is closed, for the commits of what still runs."""

    def __init__(self, client: Client, name: str, handler: Handler, begin: Callable[..., None], source: KafkaSource) -> None:
        self._client, self._name, self._handler, self._begin = client, name, handler, begin
        self._source = source
        self.slots = Line(handler.concurrency)
        self._offsets = Offsets()
        self._done: list[Waiting] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._closing = threading.Event()
        self._passed = 0
        self._consumer: Any = None
        label = f"tickwheel-kafka-{handler.callback}"
        self.thread = threading.Thread(target=self._claim_all, name=f"{label}-claim", daemon=True)
        self._consuming = threading.Thread(target=self._consume_all, name=label, daemon=True)

    def start(self) -> None:
        """Begins to consume and to claim."""
        self.thread.start()
        self._consuming.start()

    def stop(self) -> None:
        """Claims no more."""
        self._stopping.set()
        self.slots.close()

    def close(self, limit: float) -> None:
        """Commits what is done, and leaves the group."""
        self._closing.set()
        self._consuming.join(limit)

    # The thread that consumes.

    def _consume_all(self) -> None:
        group = self._subscribe()
        if group is None:
            return
        self._consumer = self._source.consumer(group, self._committed)
        topics = [f"{group}.{priority}" for priority in ("high", "normal", "low")]
        self._consumer.subscribe(topics, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._closing.is_set():
                try:
                    self._consume()
                except Exception:
                    log.exception("cannot consume for %s, trying again", self._handler.callback)
                    self._closing.wait(1)
            self._commit(asynchronous=False)
        finally:
            self._consumer.close()

    def _subscribe(self) -> str | None:
        """Makes sure that the topics exist. Returns the group, or none when the worker stops before."""
        backoff = Backoff()
        callback = self._handler.callback
        while not self._stopping.is_set():
            try:
                return self._client.worker.subscribe(self._name, [callback]).groups[callback]
            except (TickwheelError, KeyError) as error:
                log.error("cannot subscribe to %s, trying again: %s", callback, error)
                asked = error.retry_after if isinstance(error, ProblemError) else None
                self._stopping.wait(backoff.failed(asked))
        return None

    def _consume(self) -> None:
        room = self.slots.room()
        # Without room the messages stay with Kafka. Consuming goes on, for the membership.
        (self._consumer.resume if room > 0 else self._consumer.pause)(self._consumer.assignment())
        for record in self._consumer.consume(max(room, 1), _CONSUME_WAIT):
            if record.error():
                log.warning("cannot receive for %s: %s", self._handler.callback, record.error())
            else:
                self._received(record)
        self._commit()

    def _received(self, record: Any) -> None:
        place, offset, value = (record.topic(), record.partition()), record.offset(), record.value() or b""
        self._offsets.received(place, offset)
        try:
            headers = record.headers() or []
            if self._source.signing_key:
                check_signature(self._source.signing_key, record.topic(), record.key(), value, headers)
            message = TaskMessage.read(headers, value)
            if message.callback != self._handler.callback:
                raise Unreadable(f"it is of the callback {message.callback!r}")
        except Unreadable as error:
            self._passed += 1
            log.error("passed a message (%s so far), %s at %s: %s", self._passed, place, offset, error)
            self._offsets.done(place, offset)
        else:
            self.slots.hold(Waiting(place, offset, value, message))

    def _commit(self, *, asynchronous: bool = True) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        with self._lock:
            done, self._done = self._done, []
        for one in done:
            self._offsets.done(one.place, one.offset)
        marks = self._offsets.to_commit()
        if not marks:
            return
        try:
            places = [TopicPartition(*place, mark) for place, mark in marks.items()]
            self._consumer.commit(offsets=places, asynchronous=asynchronous)
            self._offsets.committed(marks)
        except KafkaException as error:
            # The next owner receives the messages again, and their claims say to forget them.
            log.warning("cannot commit for %s: %s", self._handler.callback, error)

    def _committed(self, error: Any, partitions: Sequence[Any]) -> None:
        if error:
            log.warning("not committed for %s: %s", self._handler.callback, error)
            self._offsets.failed((one.topic, one.partition) for one in partitions)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._commit(asynchronous=False)
        self._lost(consumer, partitions)

    def _lost(self, _: Any, partitions: Sequence[Any]) -> None:
        """Attempts that run go on, by their leases."""
        places: set[Place] = {(one.topic, one.partition) for one in partitions}
        self.slots.drop(places)
        self._offsets.forget(places)

    # The thread that claims.

    def _claim_all(self) -> None:
        while batch := self.slots.take():
            sent = time.monotonic()
            items: list[ClaimItem] = [
                {
                    "id": one.message.id,
                    "generation": one.message.generation,
                    "expected_attempt": one.message.expected_attempt,
                    "message": base64.b64encode(one.value).decode(),  # spares the service a read
                }
                for one in batch
            ]
            view = "FULL" if any(one.message.content is None for one in batch) else "BASIC"
            try:
                results = self._client.worker.claim(self._name, items, view=view)
                if len(results) != len(batch):
                    raise UnexpectedAnswer("the server", f"{len(results)} results for {len(batch)} messages")
            except Exception as error:
                for one in batch:
                    self._failed(one, error)
                continue
            for one, result in zip(batch, results, strict=True):
                self._answered(one, result, sent)

    def _answered(self, one: Waiting, result: ClaimResult, sent: float) -> None:
        if result.status == "claimed" and result.task is not None:
            self._start(one, result.task, sent)
        elif result.status in ("early", "limited") and result.not_before is not None:
            until, now = result.not_before.timestamp(), time.time()
            if result.status == "early" and until > now + _HOLD_MAX:
                self._forget(one)  # the service publishes it again at its time
            else:
                self._again(one, max(min(until, now + _HOLD_MAX), now + _HOLD_MIN))
        elif result.status == "error" and result.error is not None and result.error.retryable:
            self._failed(one, UnexpectedAnswer("the server", result.error.detail))
        else:
            # Outdated, held, gated, behind another one, and what later versions say: the service comes back to the task.
            self._forget(one)

    def _start(self, one: Waiting, task: ClaimedTask, sent: float) -> None:
        if one.message.content is not None and task.payload is None and task.payload_base64 is None:
            fill(task, one.message.content)
        attempt = Attempt(task, sent, self._handler.attempt_timeout)
        attempt.on_done = lambda: self._note_done(one)
        self._begin(self._handler, attempt, self.slots, self._stopping.is_set())

    def _failed(self, one: Waiting, error: Exception) -> None:
        log.warning("task %s: no claim: %s", one.message.id, error)
        is_final = isinstance(error, TickwheelError) and not error.retryable and not isinstance(error, UnexpectedAnswer)
        if is_final or one.failures >= _FAILURES_MAX:
            self._forget(one)  # the service comes back to the task
            return
        backoff = Backoff()
        backoff.failures = one.failures
        one.failures += 1
        asked = error.retry_after if isinstance(error, ProblemError) else None
        self._again(one, time.time() + backoff.failed(asked))

    def _again(self, one: Waiting, not_before: float) -> None:
        one.not_before = not_before
        self.slots.hold(one)
        self.slots.free()

    def _forget(self, one: Waiting) -> None:
        self._note_done(one)
        self.slots.free()

    def _note_done(self, one: Waiting) -> None:
        with self._lock:
            self._done.append(one)
