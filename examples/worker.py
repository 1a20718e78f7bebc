#!/usr/bin/env python3
"""A Tickwheel worker in Python, with the standard library only: copy it, and put your own functions into CALLBACKS.

    examples/worker.py --server http://127.0.0.1:7420 --concurrency 8
    tickwheel task register --callback greet --payload '{"name": "Ada"}'

It polls for as many tasks as it has free threads; the tasks come claimed, so each is this worker's alone while its
heartbeats arrive. A callback that raises is tried again by the task's retry rule; one that raises Fatal is not. SIGTERM
and SIGINT: no new tasks, what runs is finished.
"""

import argparse
import base64
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

POLL_WAIT_SECONDS = 30


class Fatal(Exception):
    """Trying again is of no use."""


class Stop(BaseException):
    """Told to stop: breaks off the poll that waits, and the service keeps the tasks for others."""


class Task:
    """A claimed task. `id` and `attempt` together are the fencing token: hand both to whatever you change."""

    def __init__(self, raw):
        self.id, self.attempt = raw["id"], raw["attempt"]
        self.callback = raw["callback"]
        self.payload = raw.get("payload")
        if "payload_base64" in raw:
            self.payload = base64.b64decode(raw["payload_base64"])
        self.timeout = seconds(raw["heartbeat_timeout"])
        self.progress = None
        self.cancelled = threading.Event()  # somebody cancelled the task: stop soon
        self.lost = threading.Event()  # somebody else may run it by now: stop, nothing counts any more


def greet(task):
    return {"greeting": f"Hello, {task.payload['name']}!"}


def count(task):
    """Takes its time, says how far it is, and stops when it should."""
    until = int(task.payload["until"])
    for n in range(until):
        if task.cancelled.wait(0.1) or task.lost.is_set():
            return {"stopped_at": n}
        task.progress = {"counted": n + 1}
    return {"counted": until}


def refuse(task):
    raise Fatal("this callback refuses everything")


CALLBACKS = {"greet": greet, "count": count, "refuse": refuse}


def seconds(text):
    """Reads a duration as the service writes it: "45s" or "1500ms"."""
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])


class Service:
    def __init__(self, server, worker):
        self.server, self.worker = server.rstrip("/"), worker

    def call(self, verb, fields, timeout):
        body = json.dumps({"worker": self.worker, **fields}).encode()
        request = urllib.request.Request(
            f"{self.server}/v1/worker/{verb}", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)


class Worker:
    def __init__(self, service, concurrency):
        self.service = service
        self.free = threading.Semaphore(concurrency)
        self.threads = ThreadPoolExecutor(concurrency)
        self.running, self.lock = {}, threading.Lock()
        self.concurrency, self.ended = concurrency, threading.Event()

    def run(self):
        """Polls until Stop is raised, then finishes what runs."""
        beating = threading.Thread(target=self.beat)
        beating.start()
        try:
            while True:
                self.poll()
        except Stop:
            pass
        finally:
            self.threads.shutdown(wait=True)
            self.ended.set()
            beating.join()

    def poll(self):
        self.free.acquire()  # at least one thread is free; ask for as many as are
        slots = 1
        while slots < self.concurrency and self.free.acquire(blocking=False):
            slots += 1
        tasks = []
        try:
            fields = {"callbacks": sorted(CALLBACKS), "max_tasks": slots, "wait": f"{POLL_WAIT_SECONDS}s"}
            tasks = self.service.call("poll", fields, POLL_WAIT_SECONDS + 10)["tasks"]
        except (OSError, ValueError) as error:
            print(f"cannot poll, trying again: {reason(error)}", file=sys.stderr)
            time.sleep(1)
        finally:
            for _ in range(slots - len(tasks)):
                self.free.release()
        for task in map(Task, tasks):
            with self.lock:
                self.running[task.id] = task
            self.threads.submit(self.attempt, task)

    def attempt(self, task):
        try:
            report = {"outcome": "succeeded", "result": CALLBACKS[task.callback](task)}
        except Fatal as error:
            report = {"outcome": "failed", "error": str(error)}
        except Exception:
            report = {"outcome": "retry", "error": traceback.format_exc(limit=5)}
        try:
            self.settle(task, report)
        finally:
            with self.lock:
                self.running.pop(task.id, None)
            self.free.release()

    def settle(self, task, report):
        """Reports until it is known: done work must not be done again because a report was lost. Repeating is safe."""
        item = {"id": task.id, "attempt": task.attempt, **report}
        until = time.monotonic() + 60
        while not task.lost.is_set() and time.monotonic() < until:
            try:
                result = self.service.call("settle", {"tasks": [item]}, 10)["results"][0]
                if result["status"] == "ok":
                    return
                if result["status"] == "lost":
                    print(f"{task.id}: attempt {task.attempt} is not the live one any more", file=sys.stderr)
                    return
                if not result["error"]["retryable"]:
                    print(f"{task.id}: the report was refused: {result['error']['detail']}", file=sys.stderr)
                    return
            except (OSError, ValueError) as error:
                print(f"cannot report, trying again: {reason(error)}", file=sys.stderr)
            time.sleep(1)

    def beat(self):
        """Keeps every running task alive: one call for all, a few times per shortest timeout."""
        while True:
            with self.lock:
                tasks = list(self.running.values())
            if self.ended.wait(min([task.timeout / 4 for task in tasks], default=0.5)):
                return
            if not tasks:
                continue
            items = [{"id": t.id, "attempt": t.attempt, "progress": t.progress} for t in tasks]
            try:
                results = self.service.call("heartbeat", {"tasks": items}, 5)["results"]
            except (OSError, ValueError) as error:
                print(f"a heartbeat was lost: {reason(error)}", file=sys.stderr)
                continue
            for task, result in zip(tasks, results):
                if result["status"] == "cancel_requested":
                    task.cancelled.set()
                elif result["status"] == "lost":
                    task.lost.set()


def reason(error):
    """What the service says is wrong, or else what happened."""
    if isinstance(error, urllib.error.HTTPError):
        try:
            return json.load(error)["detail"]
        except (OSError, ValueError, KeyError):
            pass
    return error


def main():
    arguments = argparse.ArgumentParser(description="Runs tasks of: " + ", ".join(sorted(CALLBACKS)))
    arguments.add_argument("--server", default=os.environ.get("TICKWHEEL_SERVER", "http://127.0.0.1:7420"))
    arguments.add_argument("--concurrency", type=int, default=4)
    options = arguments.parse_args()

    def stop(*_):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    name = f"python-{socket.gethostname()}-{os.getpid()}"
    Worker(Service(options.server, name), options.concurrency).run()


if __name__ == "__main__":
    main()
