"""Runs workers that consume Kafka against a service on real servers, and checks the promises of the contract.

    drive.py PROGRAM --work DIR --broker COMMAND --worker COMMAND

The commands are words as a shell quotes them. That of the worker takes the name of a file, and writes a line to it at each begin and each end of an attempt of the callback
`ledger`: `begin ID ATTEMPT MILLISECONDS`. Three processes of it run. The first is killed with attempts in it, the second one is
asked to end, the third ends the rest. Then every task must have ended as it was to; each attempt has begun once, none while
another one of its task ran, and none before its start; only attempts of the process that was killed are lost; and every
message is committed, also those that are no task.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

CALLBACK = "ledger"
TASKS = 400
# The least that the service takes, so that the tasks of a killed process come back soon.
HEARTBEAT_SECONDS = 4
PATIENCE_SECONDS = 120


def fail(reason):
    sys.exit(f"tests/clients/drive.py: {reason}")


def until(what, found, seconds=PATIENCE_SECONDS):
    """Looks ten times a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    return fail(f"not within {seconds} s: {what}")


class Service:
    """One node on the servers of the stack."""

    def __init__(self, program, work):
        self.log = work / "service.log"
        prefix = f"w{os.getpid()}"
        self.environment = {
            **os.environ,
            "TICKWHEEL_STORE": "cassandra",
            "TICKWHEEL_CASSANDRA": os.environ["TICKWHEEL_TEST_CASSANDRA"],
            "TICKWHEEL_KAFKA": os.environ["TICKWHEEL_TEST_KAFKA"],
            "TICKWHEEL_KEYSPACE": prefix,
            "TICKWHEEL_KAFKA_TOPIC_PREFIX": prefix,
            "TICKWHEEL_REPLICATION_FACTOR": "1",
            "TICKWHEEL_WHEELS": "16",
        }
        self.group = f"{prefix}.{CALLBACK}"
        subprocess.run([program, "init"], env=self.environment, check=True, stdout=subprocess.DEVNULL)
        with open(self.log, "wb") as log:
            command = [program, "serve", "--listen", "127.0.0.1:0"]
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.url = until("the service is ready", self.address)

    def address(self):
        if self.process.poll() is not None:
            fail(f"the service has ended: {self.log.read_text()}")
        for line in self.log.read_text().splitlines():
            if "ready on http:" in line:
                return "http:" + line.split("ready on http:")[1].split()[0]
        return None

    def call(self, path, fields=None):
        body = None if fields is None else json.dumps(fields).encode()
        request = urllib.request.Request(self.url + path, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


class Worker:
    """A process of the worker, its ledger and its log."""

    def __init__(self, name, command, service, work):
        self.ledger, self.log = work / f"{name}.ledger", work / f"{name}.log"
        environment = {**service.environment, "TICKWHEEL_SERVER": service.url}
        with open(self.log, "wb") as log:
            command = [*command, str(self.ledger)]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.killed_at = None

    def lines(self):
        """What it wrote: whether an attempt began, its task, its number, and when."""
        if not self.ledger.exists():
            return []
        fields = [line.split() for line in self.ledger.read_text().splitlines()]
        return [(what == "begin", task, int(attempt), int(at)) for what, task, attempt, at in fields]

    def begun(self):
        return sum(begins for begins, *_ in self.lines())

    def running(self):
        attempts = {}
        for begins, task, attempt, at in self.lines():
            if begins:
                attempts[task, attempt] = at
            else:
                attempts.pop((task, attempt), None)
        return attempts

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.killed_at = round(time.time() * 1000)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=40)


def request(number):
    """Tasks of all kinds: long ones, large ones, such as are tried again and such as fail."""
    payload = {"work_ms": 50 + number % 7 * 60}
    if number % 20 == 3:
        payload["work_ms"] = 3 * HEARTBEAT_SECONDS * 1000
    elif number % 20 == 7:
        payload["outcome"] = "retry"
    elif number % 20 == 11:
        payload["outcome"] = "fail"
    if number % 10 == 4:
        payload["large"] = "x" * 30_000
    return {
        "callback": CALLBACK,
        "delay": f"{3000 + number * 60}ms",
        "payload": payload,
        "priority": ("normal", "high", "low")[number % 3],
        "heartbeat_timeout": f"{HEARTBEAT_SECONDS}s",
        # A message that is lost is not repeated within the time of the test.
        "claim_timeout": "10m",
        "max_attempts": 5,
    }


def register(service):
    requests = [request(number) for number in range(TASKS)]
    results = service.call("/v1/tasks:batchCreate", {"tasks": requests})["results"]
    return {result["task"]["id"]: asked for result, asked in zip(results, requests, strict=True)}


def ended(service, ids):
    """The tasks, once all of them have ended."""
    tasks = {}
    for task in ids:
        tasks[task] = service.call(f"/v1/tasks/{task}")
        if tasks[task]["state"] not in ("succeeded", "failed", "dead", "expired", "cancelled"):
            return None
    return tasks


def milliseconds(text):
    """Reads an instant of the service."""
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def check(tasks, asked, workers, killed):
    running = {task for task, _ in killed.running()}
    wrong = []
    spans = collections.defaultdict(list)
    seen = collections.Counter()
    for worker in workers:
        ends = {(task, attempt): at for begins, task, attempt, at in worker.lines() if not begins}
        for begins, task, attempt, at in worker.lines():
            if begins:
                seen[task, attempt] += 1
                spans[task].append((at, ends.get((task, attempt), worker.killed_at), attempt))
    wrong += [f"{key} began {count} times" for key, count in seen.items() if count > 1]
    for task, read in tasks.items():
        outcome = asked[task]["payload"].get("outcome")
        expected = "failed" if outcome == "fail" else "succeeded"
        if read["state"] != expected:
            wrong.append(f"{task} is {read['state']}, not {expected}: {read}")
        runs = sorted(spans[task])
        if not runs:
            wrong.append(f"{task} never ran")
            continue
        if runs[0][0] < milliseconds(read["start_time"]):
            wrong.append(f"{task} ran early: {runs[0]}, {read['start_time']}")
        for (_, end, one), (begin, _, other) in zip(runs, runs[1:]):
            if end is None or begin < end:
                wrong.append(f"attempt {other} of {task} began while attempt {one} ran")
        attempts = [(one["outcome"], one["worker"].rpartition("/")[2]) for one in read["attempts"]]
        lost = [worker for what, worker in attempts if what == "lost"]
        if lost not in ([], [str(killed.process.pid)]) or (task in running and not lost):
            wrong.append(f"{task} lost attempts of {lost}: {read}")
        others = sorted(what for what, _ in attempts if what not in ("lost", "snoozed"))
        if others not in ([expected], ["retry", expected] if outcome == "retry" else [expected]):
            wrong.append(f"the attempts of {task} are {attempts}: {read}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--broker", type=shlex.split, required=True)
    parser.add_argument("--worker", type=shlex.split, required=True)
    arguments = parser.parse_args()
    work = arguments.work
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    service = Service(arguments.program, work)
    workers = []

    def start(name):
        workers.append(Worker(name, arguments.worker, service, work))
        return workers[-1]

    def broker(*words):
        command = [*arguments.broker, *words]
        done = subprocess.run(command, env=service.environment, check=True, capture_output=True, text=True)
        return done.stdout

    def committed():
        lines = broker("lag", service.group).splitlines()
        return lines and all(line.endswith(" 0") for line in lines)

    try:
        one, two = start("one"), start("two")
        service.call("/v1/worker/subscribe", {"worker": "test", "callbacks": [CALLBACK]})
        asked = register(service)
        broker("disturb", f"{service.group}.normal")
        until("both workers have begun", lambda: one.begun() > 20 and two.begun() > 20)
        until("the first one is busy", lambda: len(one.running()) > 2)
        one.kill()
        three = start("three")
        until("the third one has begun", lambda: three.begun() > 10)
        until("the second one is busy", lambda: len(two.running()) > 2)
        two.terminate()
        if two.running() or two.process.returncode not in (0, 128 + signal.SIGTERM):
            fail(f"it ended with {two.process.returncode} while it ran {two.running()}")
        tasks = until("all tasks have ended", lambda: ended(service, asked))
        wrong = check(tasks, asked, workers, one)
        until("every message is committed", committed, 20)
        three.terminate()
        passed = sum(worker.log.read_text().count("passed a message") for worker in workers)
        if passed < 16:
            wrong.append(f"{passed} messages that are no task were logged")
        if wrong:
            fail("\n".join(wrong))
        outcomes = collections.Counter(one["outcome"] for read in tasks.values() for one in read["attempts"])
        if not outcomes["lost"]:
            fail("the process that was killed ran nothing")
        counts = ", ".join(str(worker.begun()) for worker in workers)
        print(f"{TASKS} tasks ended, attempts by worker: {counts}; {dict(outcomes)}; {passed} messages passed")
    finally:
        for process in [*(worker.process for worker in workers), service.process]:
            process.kill()
            process.wait()


main()
