"""The promises of the service, as they are seen through the client and the worker."""

from __future__ import annotations

import datetime
import threading
import time
from typing import Any

import pytest

import tickwheel
from tickwheel import Client, Fail, Job, Result, Retry, Snooze, Worker, errors

from .conftest import eventually


def test_register_is_read_back_whole(client: Client, callback: str) -> None:
    start = datetime.datetime(2031, 1, 31, 9, 0, 0, 250_000, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    made = client.register(callback, {"n": 1}, start_time=start, labels={"tenant": "acme"}, max_attempts=3, retention="7d")
    read = client.get(made.id)
    assert made.outcome == "created"
    assert (read.start_time, read.payload, read.labels, read.max_attempts) == (start, {"n": 1}, {"tenant": "acme"}, 3)
    assert read.retention == datetime.timedelta(days=7)
    assert not tickwheel.has_ended(read)


def test_a_task_over_http_alone_has_an_id_of_the_client(client: Client) -> None:
    task: dict[str, Any] = {"http": {"url": "http://127.0.0.1:9/"}, "delay": "1h"}
    client.register(**task)  # asks what ids are made of
    assert client._registering._ids.fix(task)
    assert [client.register(**task).id for _ in range(2)] == [task["id"]] * 2
    assert client.cancel(task["id"]).outcome == "cancelled"


def test_a_task_runs_at_its_time_and_not_before(client: Client, worker: Worker, callback: str) -> None:
    began: list[float] = []

    @worker.task(callback)
    def run(_: object, job: Job) -> None:
        began.append(time.time() - job.start_time.timestamp())

    with worker:
        task = client.register(callback, delay=0.3)
        assert client.wait(task.id, 5).state == "succeeded"
    assert 0 <= began[0] < 2


@pytest.mark.parametrize("payload", [b"\xff\x00", "text", [1, 2.5, None], {"a": {"b": "ä"}}, None])
def test_payloads_come_as_they_were_given(client: Client, worker: Worker, callback: str, payload: Any) -> None:
    seen: list[Any] = []

    if isinstance(payload, bytes):

        @worker.task(callback)
        def raw(given: bytes) -> None:
            seen.append(given)
    else:

        @worker.task(callback)
        def run(given: object) -> None:
            seen.append(given)

    with worker:
        assert client.wait(client.register(callback, payload).id, 5).state == "succeeded"
    assert seen == [payload]


def test_a_key_names_one_live_task(client: Client, callback: str) -> None:
    first = client.register(callback, key="k", delay="1h")
    with pytest.raises(errors.Conflict) as taken:
        client.register(callback, key="k", delay="1h")
    assert (taken.value.code, taken.value.existing) == ("key_taken", first.id)
    ignored = client.register(callback, key="k", delay="1h", on_conflict="ignore")
    assert (ignored.id, ignored.outcome) == (first.id, "existing")
    replaced = client.register(callback, key="k", delay="2h", on_conflict="replace")
    assert (replaced.outcome, client.get(first.id).state) == ("replaced", "cancelled")
    found = client.find(callback, "k")
    assert found is not None
    assert found.id == replaced.id
    assert client.reschedule_key(callback, "k", delay="3h").outcome == "rescheduled"
    assert client.cancel_key(callback, "k").outcome == "cancelled"
    with pytest.raises(errors.NotFound):
        client.run_key(callback, "no such key")


def test_an_idempotency_key_makes_repetitions_one_task(client: Client, callback: str) -> None:
    made = [client.register(callback, {"n": 1}, delay="1h", idempotency_key=callback) for _ in range(2)]
    assert made[0].id == made[1].id
    # Alone or in a batch, it is the same request.
    batch = client.register_many([{"callback": callback, "payload": {"n": 1}, "delay": "1h", "idempotency_key": callback}] * 2)
    assert {one.id for one in batch if isinstance(one, tickwheel.models.TaskResponse)} == {made[0].id}
    with pytest.raises(errors.Refused) as reused:
        client.register(callback, {"n": 2}, delay="1h", idempotency_key=callback)
    assert reused.value.code == "idempotency_key_reused"


def test_cancel_says_which_came_first(client: Client, worker: Worker, callback: str) -> None:
    waiting = client.register(callback, delay="1h")
    assert client.cancel(waiting.id).outcome == "cancelled"
    assert client.cancel(waiting.id).outcome == "already_cancelled"

    @worker.task(callback)
    def run() -> None:
        pass

    with worker:
        ended = client.register(callback)
        client.wait(ended.id, 5)
    assert client.cancel(ended.id).outcome == "too_late"
    with pytest.raises(errors.NotFound):
        client.cancel("01a2279a-aa19-8000-8fda-9b4c8f927dfd")


def test_a_task_that_runs_is_told_of_a_cancel(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def run(_: object, job: Job) -> str:
        assert job.cancelled.wait(10)
        return "stopped early"

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        eventually(lambda: client.get(task.id).state == "processing")
        assert client.cancel(task.id).outcome == "cancel_requested"
        ended = client.wait(task.id, 10)
    assert (ended.state, ended.result) == ("succeeded", "stopped early")


def test_move_and_run(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def run() -> None:
        pass

    task = client.register(callback, delay="1h")
    moved = client.reschedule(task.id, delay="2h")
    assert (moved.outcome, moved.task.generation) == ("rescheduled", 1)
    with worker:
        assert client.run(task.id).outcome == "rescheduled"
        assert client.wait(task.id, 5).state == "succeeded"
    assert client.reschedule(task.id, delay=1).outcome == "too_late"
    with pytest.raises(errors.InvalidArgument):
        client.reschedule(task.id)


def test_outcomes(client: Client, worker: Worker, callback: str) -> None:
    attempts: dict[str, int] = {}

    @worker.task(callback)
    def run(how: str, job: Job) -> object:
        attempts[how] = attempts.get(how, 0) + 1
        first = attempts[how] == 1
        if how == "retry" and first:
            raise Retry("not yet", delay=0.1)
        if how == "error" and first:
            raise KeyError("lost")
        if how == "snooze" and first:
            raise Snooze(0.1)
        if how == "fail":
            raise Fail("no such user")
        if how == "bytes":
            return Result(b"\x89PNG", "image/png")
        return job.attempt

    with worker:
        ids = {
            how: client.register(callback, how, retry={"initial": "100ms"}).id
            for how in ("retry", "error", "snooze", "fail", "bytes")
        }
        ended = {how: client.wait(id, 10) for how, id in ids.items()}
    assert {how: task.state for how, task in ended.items()} == {**dict.fromkeys(ids, "succeeded"), "fail": "failed"}
    assert (ended["retry"].result, ended["error"].result) == (2, 2)
    assert ended["fail"].error == "no such user"
    assert (ended["bytes"].result_base64, ended["bytes"].result_content_type) == ("iVBORw==", "image/png")
    failures = [one.error for one in client.get(ids["error"]).attempts or [] if one.error]
    assert failures[0].startswith("KeyError: 'lost'\n")


def test_a_snooze_is_no_attempt_that_counts(client: Client, worker: Worker, callback: str) -> None:
    times: list[int] = []

    @worker.task(callback)
    def often() -> None:
        times.append(1)
        if len(times) < 4:
            raise Snooze(0)

    with worker:
        assert client.wait(client.register(callback, max_attempts=1).id, 10).state == "succeeded"


def test_attempts_that_are_used_up_are_dead_letters(client: Client, worker: Worker, callback: str) -> None:
    broken = threading.Event()
    broken.set()

    @worker.task(callback)
    def run(_: object, job: Job) -> None:
        if broken.is_set():
            raise RuntimeError(f"number {job.attempt} went wrong")

    with worker:
        task = client.register(callback, max_attempts=2, retry={"initial": "50ms"})
        assert client.wait(task.id, 10).state == "dead"
        # The list of dead tasks is written behind their end.
        eventually(lambda: [one.id for one in client.dead_letters.list(callback=callback)] == [task.id])
        assert [one.tasks for one in client.dead_letters.groups(callback=callback)] == [1]
        broken.clear()
        redriven = client.dead_letters.redrive([task.id])
        assert isinstance(redriven, tickwheel.models.RedriveResponse)
        assert redriven.redriven == 1
        assert client.wait(task.id, 10).state == "succeeded"


def test_progress_and_heartbeats_hold_a_task(client: Client, worker: Worker, callback: str) -> None:
    runs: list[int] = []

    @worker.task(callback)
    def run(_: object, job: Job) -> None:
        runs.append(job.attempt)
        job.report({"done": 40})
        time.sleep(4)

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        eventually(lambda: client.get(task.id).progress == {"done": 40})
        assert client.wait(task.id, 10).state == "succeeded"
    assert runs == [1]


def test_results_are_read_with_the_task_and_by_its_follower(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def run(_: object, job: Job) -> object:
        return {"n": 7} if job.previous is None else job.previous.result

    with worker:
        task = client.register(callback, then=[{"task": {"callback": callback}, "with_result": True}])
        assert client.wait(task.id, 5).result == {"n": 7}
        follower = (client.get(task.id).then or [])[0].id
        assert follower is not None
        # Its id is known before it is registered.
        eventually(lambda: follower in [one.id for one in client.list(callback=callback)])
        assert client.wait(follower, 5).result == {"n": 7}


def test_a_tree_ends_once(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def run() -> None:
        pass

    with worker:
        root = client.register(callback, children=[{"callback": callback}, {"callback": callback, "payload": 1}])
        eventually(lambda: client.get(root.id).tree_state == "completed")
    assert len(client.tree(root.id).nodes) == 3
    assert client.draw(root.id).startswith(("graph", "flowchart"))
    other = client.register(callback, delay="1h", children=[{"callback": callback}])
    cancelled = client.cancel(other.id, tree=True)
    assert (cancelled.outcome, cancelled.cancelled) == ("cancelled", 1)
