#!/usr/bin/env python3
"""A Tickwheel worker in Python that consumes Kafka: copy it with kafka_message.py, and put your own functions into CALLBACKS.

    pip install confluent-kafka
    examples/kafka_worker.py --server http://127.0.0.1:7420 --kafka 127.0.0.1:19092 --concurrency 8
    tickwheel task register --callback greet --payload '{"name": "Ada"}'

The contract is docs/kafka-message.md. A message is held until it is due, and claimed once a thread is free. Its offset is
committed when its attempt is settled, or when its claim says to forget it. A callback that raises is tried again by the
task's retry rule; one that raises Fatal is not, one that raises Later is tried again after its delay. SIGTERM and SIGINT: no
new tasks, what runs is finished.
"""

import argparse
import base64
import heapq
import http.client
import json
import logging
import os
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from kafka_message import TaskMessage, Unreadable, is_signed

CALL_SECONDS, HOLD_SECONDS, SETTLE_GRACE_SECONDS = 10, 5, 30
CLAIMS, CLAIM_BYTES, CLAIM_FAILURES = 1000, 8 << 20, 5
LOG = logging.getLogger("tickwheel.kafka")


class Fatal(Exception):
    """Trying again is of no use."""


class Later(Exception):
    """Try again after so many seconds."""

    def __init__(self, error, seconds):
        super().__init__(error)
        self.seconds = seconds


class Refused(Exception):
    """A call that the service refuses, however often it is made."""


class Unavailable(Exception):
    """A call that may succeed when it is made again, after so many seconds."""

    def __init__(self, reason, seconds=0.0):
        super().__init__(reason)
        self.seconds = seconds


class Service:
    """The calls of a worker, over HTTP."""

    def __init__(self, server, worker, api_key=None):
        self.server, self.worker = server.rstrip("/"), worker
        self.headers = {"content-type": "application/json"}
        if api_key:
            self.headers["authorization"] = f"Bearer {api_key}"

    def call(self, verb, timeout=CALL_SECONDS, **asked):
        body = json.dumps({"worker": self.worker, **asked}).encode()
        request = urllib.request.Request(f"{self.server}/v1/worker/{verb}", body, self.headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            reason = f"{verb}: {error.code}: {error.read(2000).decode(errors='replace')}"
            if error.code != 429 and error.code < 500:
                raise Refused(reason) from error
            after = error.headers.get("retry-after", "")
            raise Unavailable(reason, float(after) if after.isdigit() else 0.0) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"{verb}: {error!r}") from error


def backoff(failures, error):
    """How long to wait after so many failures in a row: longer each time, with jitter."""
    longest = min(0.1 * 2 ** min(failures, 10), 5.0)
    return max(random.uniform(longest / 2, longest), error.seconds)


class Offsets:
    """What may be committed: messages are done in any order, and a mark passes none that is not done."""

    def __init__(self):
        self.open, self.next, self.committed = {}, {}, {}

    def received(self, place, offset):
        self.open.setdefault(place, set()).add(offset)
        self.committed.setdefault(place, offset)
        self.next[place] = offset + 1

    def done(self, place, offset):
        self.open.get(place, set()).discard(offset)

    def forget(self, place):
        for kept in (self.open, self.next, self.committed):
            kept.pop(place, None)

    def to_commit(self):
        marks = {place: min(waits) if waits else self.next[place] for place, waits in self.open.items()}
        return {place: mark for place, mark in marks.items() if mark > self.committed[place]}

    def sent(self, marks):
        for place, mark in marks.items():
            if place in self.committed:
                self.committed[place] = mark


class Task:
    """An attempt of a task. `id` and `attempt` together are the fencing token: hand both to whatever you change."""

    def __init__(self, message, claimed, sent):
        self.id, self.attempt, self.callback = message.id, claimed["attempt"], message.callback
        self.max_attempts, self.start, self.timeout = message.max_attempts, message.start, message.heartbeat_timeout
        self.payload_bytes, self.content_type = message.payload, message.content_type
        if message.payload is None:
            self.content_type = claimed.get("content_type", "")
            whole = claimed.get("payload_base64")
            self.payload_bytes = base64.b64decode(whole) if whole else json.dumps(claimed.get("payload")).encode()
        self.cancelled = threading.Event()  # somebody cancelled the task: stop soon
        self.lost = threading.Event()  # somebody else may run it by now: stop, nothing counts any more
        self.extend(sent)

    @property
    def payload(self):
        return json.loads(self.payload_bytes) if self.content_type == "application/json" else self.payload_bytes

    def extend(self, sent):
        """The lease counts from before the request, and ends here before it ends at the service."""
        self.until = sent + self.timeout - min(1.0, self.timeout / 4)
        self.beat = sent + self.timeout / 3


class Waiting:
    """A message that must not be claimed before an instant."""

    def __init__(self, place, offset, value, message):
        self.place, self.offset, self.value, self.message = place, offset, value, message
        self.not_before, self.failures = message.start, 0
        self.rank = {"high": 0, "normal": 1}.get(place[0].rpartition(".")[2], 2)

    def __lt__(self, other):
        return (self.rank, self.message.start) < (other.rank, other.message.start)


class KafkaWorker:
    """Runs the tasks of one callback that come through Kafka. `run` polls and commits; a thread claims, each attempt has one."""

    def __init__(self, service, kafka, callback, function, concurrency=8, drain=20.0):
        self.service, self.kafka, self.callback, self.function = service, kafka, callback, function
        self.concurrency, self.drain_seconds = concurrency, drain
        self.signing_key = os.environ.get("TICKWHEEL_SIGNING_KEY", "").encode()  # of a service that signs its messages
        self.threads = ThreadPoolExecutor(concurrency)
        self.changed = threading.Condition()  # guards what follows
        self.held, self.ready, self.free, self.stopped = [], [], concurrency, False
        self.done, self.running, self.owned = [], set(), set()
        self.offsets, self.unreadable, self.ended = Offsets(), 0, threading.Event()

    def stop(self):
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def run(self):
        from confluent_kafka import Consumer

        group = self.subscribe()
        if group is None:
            return
        own = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        own |= {"max.poll.interval.ms": 60_000, "on_commit": self.committed}
        self.consumer = Consumer({"partition.assignment.strategy": "range", **self.kafka, **own})
        topics = [f"{group}.{priority}" for priority in ("high", "normal", "low")]
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lose)
        claims, heart = threading.Thread(target=self.claim_all), threading.Thread(target=self.beat, daemon=True)
        claims.start()
        heart.start()
        try:
            while not self.stopped:
                self.turn()
            until = time.monotonic() + self.drain_seconds
            while (claims.is_alive() or self.running) and time.monotonic() < until:
                self.turn()
            self.commit(asynchronous=False)
        finally:
            self.stop()
            self.ended.set()
            self.consumer.close()
            self.threads.shutdown(wait=False)

    def subscribe(self):
        failures = 0
        while not self.stopped:
            try:
                return self.service.call("subscribe", callbacks=[self.callback])["groups"][self.callback]
            except Unavailable as error:
                LOG.warning("trying again: %s", error)
                with self.changed:
                    self.changed.wait_for(lambda: self.stopped, backoff(failures, error))
                failures += 1
        return None

    def turn(self):
        with self.changed:
            room = 0 if self.stopped else self.concurrency - len(self.held) - len(self.ready)
        # Without room the messages stay with Kafka. Polling goes on, for the membership.
        (self.consumer.resume if room > 0 else self.consumer.pause)(self.consumer.assignment())
        for record in self.consumer.consume(max(room, 1), 0.1):
            if record.error():
                LOG.warning("cannot receive: %s", record.error())
            else:
                self.received(record)
        self.commit()

    def received(self, record):
        place, offset = (record.topic(), record.partition()), record.offset()
        self.offsets.received(place, offset)
        try:
            key, (headers, value) = self.signing_key, (record.headers(), record.value())
            if key and not is_signed(key, record.topic(), record.key(), value, headers):
                raise Unreadable("it has no signature of the service")
            message = TaskMessage.read(headers, value)
            if message.callback != self.callback:
                raise Unreadable(f"it is of callback {message.callback}")
            self.hold(Waiting(place, offset, record.value(), message))
        except Unreadable as error:
            self.unreadable += 1
            LOG.error("passed a message (%d so far), %s at %d: %s", self.unreadable, place, offset, error)
            self.offsets.done(place, offset)

    def commit(self, asynchronous=True):
        from confluent_kafka import KafkaException, TopicPartition

        with self.changed:
            done, self.done = self.done, []
        for one in done:
            self.offsets.done(one.place, one.offset)
        marks = self.offsets.to_commit()
        if not marks:
            return
        try:
            offsets = [TopicPartition(*place, mark) for place, mark in marks.items()]
            self.consumer.commit(offsets=offsets, asynchronous=asynchronous)
            self.offsets.sent(marks)
        except KafkaException as error:
            # The next owner receives the messages again, and its claims say to forget them.
            LOG.warning("cannot commit: %s", error)

    def committed(self, error, partitions):
        if error:
            LOG.warning("not committed: %s", error)
            for one in partitions:
                # To be sent once more.
                place = (one.topic, one.partition)
                if place in self.offsets.committed:
                    self.offsets.committed[place] = -1

    def assigned(self, _, partitions):
        self.owned |= {(one.topic, one.partition) for one in partitions}

    def revoked(self, consumer, partitions):
        self.commit(asynchronous=False)
        self.lose(consumer, partitions)

    def lose(self, _, partitions):
        """Attempts that run go on, by their leases. What is claimed and has not begun is given back."""
        places = {(one.topic, one.partition) for one in partitions}
        with self.changed:
            self.owned -= places
            self.held = [one for one in self.held if one[2].place not in places]
            self.ready = [one for one in self.ready if one.place not in places]
            heapq.heapify(self.held)
            heapq.heapify(self.ready)
        for place in places:
            self.offsets.forget(place)

    def hold(self, one):
        with self.changed:
            heapq.heappush(self.held, (one.not_before, id(one), one))
            self.changed.notify_all()

    def take(self):
        """Waits for messages that are due and have a free thread; none when the worker stops."""
        with self.changed:
            while not self.stopped:
                now = time.time()
                while self.held and self.held[0][0] <= now:
                    heapq.heappush(self.ready, heapq.heappop(self.held)[2])
                batch, size = [], 0
                while self.ready and self.free and len(batch) < CLAIMS and size < CLAIM_BYTES:
                    batch.append(heapq.heappop(self.ready))
                    size += len(batch[-1].value)
                    self.free -= 1
                if batch:
                    return batch
                self.changed.wait(self.held[0][0] - now if self.held else None)
        return []

    def claim_all(self):
        while batch := self.take():
            sent = time.monotonic()
            messages = [
                {
                    "id": one.message.id,
                    "generation": one.message.generation,
                    "expected_attempt": one.message.expected_attempt,
                    "message": base64.b64encode(one.value).decode(),  # spares the service a read
                }
                for one in batch
            ]
            view = "FULL" if any(one.message.payload is None for one in batch) else "BASIC"
            try:
                results = self.service.call("claim", messages=messages, view=view)["results"]
                if len(results) != len(batch):
                    raise Unavailable("claims are not answered one by one")
            except (Refused, Unavailable) as error:
                for one in batch:
                    self.failed(one, error)
                continue
            for one, result in zip(batch, results):
                self.answered(one, result, sent)

    def answered(self, one, result, sent):
        status = result["status"]
        if status == "claimed":
            task = Task(one.message, result["task"], sent)
            with self.changed:
                self.running.add(task)
            self.threads.submit(self.attempt, one, task)
        elif status in ("early", "limited"):
            until, now = datetime.fromisoformat(result["not_before"].replace("Z", "+00:00")).timestamp(), time.time()
            if status == "early" and until > now + HOLD_SECONDS:
                self.forget(one)  # the service publishes it again at its time
            else:
                self.again(one, max(min(until, now + HOLD_SECONDS), now + 0.02))
        elif status == "error":
            problem = result["error"]
            self.failed(one, (Unavailable if problem["retryable"] else Refused)(problem["detail"]))
        else:
            # stale, held, gated, behind, and what later versions say: the service comes back to the task.
            self.forget(one)

    def failed(self, one, error):
        LOG.warning("task %s: no claim: %s", one.message.id, error)
        if isinstance(error, Refused) or one.failures >= CLAIM_FAILURES:
            self.forget(one)  # the service comes back to the task
        else:
            one.failures += 1
            self.again(one, time.time() + backoff(one.failures, error))

    def again(self, one, not_before):
        one.not_before = not_before
        self.hold(one)
        self.release()

    def forget(self, one):
        with self.changed:
            self.done.append(one)
        self.release()

    def release(self):
        with self.changed:
            self.free += 1
            self.changed.notify_all()

    def attempt(self, one, task):
        try:
            if self.stopped or one.place not in self.owned:
                # It has not begun: given back, it runs elsewhere at once, and no attempt is spent.
                report = {"outcome": "snoozed", "delay": "0s"}
            else:
                report = self.report(task)
            self.settle(task, report)
        except Exception:
            LOG.exception("task %s: its lease is left to its end", task.id)
        finally:
            self.forget(one)
            with self.changed:
                self.running.discard(task)

    def report(self, task):
        try:
            result = self.function(task)
            return {"outcome": "succeeded"} if result is None else {"outcome": "succeeded", "result": result}
        except Fatal as error:
            return {"outcome": "failed", "error": str(error)}
        except Later as error:
            return {"outcome": "retry", "error": str(error), "delay": f"{round(error.seconds * 1000)}ms"}
        except Exception as error:
            LOG.exception("task %s failed", task.id)
            return {"outcome": "retry", "error": repr(error)}

    def settle(self, task, report):
        """Repeats the report until it is answered: work that is done must not be done again because it was late."""
        failures = 0
        while time.monotonic() < task.until + SETTLE_GRACE_SECONDS:
            try:
                report |= {"id": task.id, "attempt": task.attempt}
                result = self.service.call("settle", tasks=[report])["results"][0]
                if result["status"] == "ok":
                    return
                problem = result.get("error", {})
                if not problem.get("retryable"):
                    raise Refused(result)
                raise Unavailable(problem["detail"])
            except Refused as error:
                LOG.warning("task %s: not reported: %s", task.id, error)
                return
            except Unavailable as error:
                LOG.warning("task %s: reporting again: %s", task.id, error)
                time.sleep(backoff(failures, error))
                failures += 1

    def beat(self):
        """Heartbeats of all attempts. A call that hangs leaves time for another one, whichever lease is the shortest."""
        while not self.ended.wait(0.25):
            sent = time.monotonic()
            with self.changed:
                running = list(self.running)
            for task in running:
                if sent > task.until:
                    task.lost.set()
            due = [task for task in running if sent >= task.beat][:CLAIMS]
            if not due:
                continue
            limit = min(5.0, *(task.timeout / 3 for task in running))
            try:
                tasks = [{"id": task.id, "attempt": task.attempt} for task in due]
                results = self.service.call("heartbeat", timeout=limit, tasks=tasks)["results"]
            except (Refused, Unavailable) as error:
                LOG.warning("no heartbeat: %s", error)
                continue
            for task, result in zip(due, results):
                if result["status"] == "lost":
                    LOG.warning("task %s: attempt %d is lost: %s", task.id, task.attempt, result.get("reason"))
                    task.lost.set()
                elif result["status"] in ("ok", "cancel_requested"):
                    if time.monotonic() < task.until:
                        task.extend(sent)
                    if result["status"] == "cancel_requested":
                        task.cancelled.set()


def greet(task):
    return {"greeting": f"Hello, {task.payload['name']}!"}


CALLBACKS = {"greet": greet}


def run_all(service, kafka, callbacks, concurrency):
    """Runs a worker for each callback until the process is told to end."""
    workers = [KafkaWorker(service, kafka, name, function, concurrency) for name, function in callbacks.items()]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: [threading.Thread(target=worker.stop).start() for worker in workers])
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description="Runs tasks that come through Kafka.")
    parser.add_argument("--server", default=os.environ.get("TICKWHEEL_SERVER", "http://127.0.0.1:7420"))
    parser.add_argument("--kafka", default=os.environ.get("TICKWHEEL_KAFKA", "127.0.0.1:9092"))
    parser.add_argument("--concurrency", type=int, default=8)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    service = Service(options.server, f"{socket.gethostname()}/{os.getpid()}", os.environ.get("TICKWHEEL_API_KEY"))
    run_all(service, {"bootstrap.servers": options.kafka}, CALLBACKS, options.concurrency)


if __name__ == "__main__":
    main()
