"""The table of promises that each package keeps, row by row: tests/clients/promises.json.

`TICKWHEEL_PROMISES_AT` names services to ask, with commas between; without it a service of its own is asked.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import pathlib
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tickwheel import Client, Fail, Job, Retry, Snooze, Worker, errors, testing

ROWS: list[dict[str, Any]] = json.loads((pathlib.Path(__file__).parents[3] / "tests/clients/promises.json").read_text())
PATIENCE_SECONDS = 40


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a service, or those of several nodes."""
    named = os.environ.get("TICKWHEEL_PROMISES_AT")
    if named:
        yield named
    else:
        with testing.service(test_clock=False) as running:
            yield running.url


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["promise"])
def test_the_package_keeps_the_promise(row: dict[str, Any], server: str) -> None:
    with Client(server) as client:
        Table(client, server, f"promise-{os.getpid()}-{ROWS.index(row)}").keep(row["steps"])


def plain(value: Any) -> Any:
    """What the package has read, as the API wrote it as far as the table asks for it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


class Table:
    """The names and the worker of a row."""

    def __init__(self, client: Client, server: str, callback: str) -> None:
        self.client, self.server, self.callback = client, server, callback
        self.ids: dict[str, str] = {}
        self.worker: Worker | None = None
        self.lock = threading.Lock()
        self.runs: collections.Counter[str] = collections.Counter()
        self.stopped: set[str] = set()

    def keep(self, steps: list[dict[str, Any]]) -> None:
        """Takes the steps, one behind the other."""
        try:
            for step in steps:
                verb = next(iter(step))
                more = {name: value for name, value in step.items() if name not in (verb, "as", "expect", "refused")}
                call = functools.partial(getattr(self, f"step_{verb}"), self.named(step[verb]), **self.named(more))
                self.take(step, call)
        finally:
            self.step_stop(True)

    def take(self, step: dict[str, Any], call: Callable[[], Any]) -> None:
        if "refused" in step:
            with pytest.raises(errors.TickwheelError) as refused:
                call()
            assert getattr(refused.value, "code", None) == step["refused"], step
            return
        if "until" in step:
            self.eventually(step, lambda: self.fits(step, call()))
            return
        answer = call()
        if "as" in step:
            self.ids[step["as"]] = answer.id
        if "expect" in step:
            assert self.fits(step, answer), (step, answer)

    def eventually(self, step: dict[str, Any], true: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < end, f"it did not become so in time: {step}"
            time.sleep(0.05)

    def named(self, value: Any) -> Any:
        """The argument of a step, with ids in the place of names."""
        if isinstance(value, dict):
            return {name: self.named(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self.named(part) for part in value]
        if value == "$callback":
            return self.callback
        if isinstance(value, str) and value.startswith("$"):
            return self.ids[value[1:]]
        return value

    def fits(self, step: dict[str, Any], answer: Any) -> bool:
        return all(within(plain(answer)[name], part) for name, part in self.named(step["expect"]).items())

    def id(self, name: str) -> str:
        return self.ids.get(name, name)

    # The steps.

    def step_register(self, task: dict[str, Any]) -> Any:
        payload = task.pop("payload", None)
        return self.client.register(self.callback, payload, **task)

    def step_get(self, name: str) -> Any:
        return self.client.get(self.id(name))

    step_until = step_get

    def step_wait(self, name: str) -> Any:
        return self.client.wait(self.id(name), PATIENCE_SECONDS)

    def step_find(self, key: str) -> Any:
        return self.client.find(self.callback, key)

    def step_follower(self, name: str) -> Any:
        """The task that follows another one: its id is known before it is there."""
        then = self.client.get(self.id(name)).then
        assert then is not None
        assert then[0].id is not None
        follower = then[0].id
        self.eventually({"follower": name}, lambda: follower in [task.id for task in self.client.list(callback=self.callback)])
        return self.client.get(follower)

    def step_cancel(self, name: str, tree: bool = False) -> Any:
        return self.client.cancel(self.id(name), tree=tree)

    def step_cancel_key(self, key: str) -> Any:
        return self.client.cancel_key(self.callback, key)

    def step_reschedule(self, name: str, delay: str) -> Any:
        return self.client.reschedule(self.id(name), delay=delay)

    def step_run(self, name: str) -> Any:
        return self.client.run(self.id(name))

    def step_tree(self, name: str, states: list[str]) -> None:
        assert sorted(node.state for node in self.client.tree(self.id(name)).nodes) == sorted(states)

    def step_schedule(self, fields: dict[str, Any]) -> Any:
        return self.client.schedules.set(self.callback, **fields)

    def step_trigger(self, _: bool) -> Any:
        return self.client.schedules.trigger(self.callback)

    def step_pause_schedule(self, _: bool) -> Any:
        return self.client.schedules.pause(self.callback)

    def step_resume_schedule(self, _: bool) -> Any:
        return self.client.schedules.resume(self.callback)

    def step_delete_schedule(self, _: bool) -> Any:
        return self.client.schedules.delete(self.callback)

    def step_runs(self, count: int) -> None:
        def enough() -> bool:
            return [run.state for run in self.client.schedules.runs(self.callback)].count("succeeded") >= count

        self.eventually({"runs": count}, enough)

    def step_settle(self, name: str, **fields: Any) -> None:
        """Another program reports the end of the attempt, which is not the worker's any more then."""
        id = self.id(name)
        body = {"worker": self.client.get(id).worker, "tasks": [{"id": id, **fields}]}
        address = self.server.split(",")[0] + "/v1/worker/settle"
        request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer)["results"][0]["status"] == "ok"

    def step_running(self, name: str) -> None:
        self.eventually({"running": name}, lambda: self.runs[self.id(name)] > 0)

    def step_stopped(self, name: str) -> None:
        self.eventually({"stopped": name}, lambda: self.id(name) in self.stopped)

    def step_ran(self, name: str, times: int) -> None:
        assert self.runs[self.id(name)] == times

    def step_pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def step_start(self, concurrency: int) -> None:
        self.worker = Worker(self.server, concurrency=concurrency, drain_timeout=10)
        self.worker.task(self.callback)(self.handle)
        self.worker.start()

    def step_stop(self, _: bool) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None

    def handle(self, payload: dict[str, Any], job: Job) -> Any:
        """Does what the payload of a task says."""
        with self.lock:
            self.runs[job.id] += 1
            run = self.runs[job.id]
        deed = payload["do"]
        if deed == "return":
            return payload["value"]
        if deed == "is_due":
            return time.time() >= job.start_time.timestamp()
        if deed == "retry_once" and job.attempt == 1:
            raise Retry("not yet", delay=0.1)
        if deed == "raise" or (deed == "raise_once" and job.attempt == 1):
            raise KeyError("it went wrong")
        if deed == "fail":
            raise Fail("no such user")
        if deed == "snooze":
            if run <= payload["times"]:
                raise Snooze(0.05)
            return "done"
        if deed == "progress":
            job.report({"done": 40})
        if deed in ("progress", "sleep"):
            time.sleep(payload["seconds"])
        if deed == "until_told":
            assert job.cancelled.wait(30)
            return "told"
        if deed == "hang":
            try:
                for _ in range(3000):
                    time.sleep(0.01)
            finally:
                self.stopped.add(job.id)
        if deed == "previous":
            assert job.previous is not None
            return job.previous.result
        return job.attempt


def within(value: Any, part: Any) -> bool:
    """Tells whether what was read has at least what is expected."""
    if isinstance(part, dict) and dataclasses.is_dataclass(value):
        value = plain(value)
    if isinstance(part, dict) and isinstance(value, dict):
        return all(name in value and within(value[name], inner) for name, inner in part.items())
    return bool(value == part)
