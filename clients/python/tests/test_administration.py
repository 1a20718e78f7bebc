"""Schedules, callbacks, lists, jobs, keys and the service itself, through the client."""

from __future__ import annotations

import datetime
import time

import pytest

import tickwheel
from tickwheel import Client, Worker, errors, testing

from .conftest import eventually


def test_schedules(client: Client, callback: str) -> None:
    made = client.schedules.set(callback, cron="0 9 * * *", time_zone="Europe/Berlin", task={"callback": callback})
    assert made.state == "live"
    assert len(client.schedules.preview(callback, count=3).run_times) == 3
    assert client.schedules.check(cron="*/5 * * * *", task={"callback": callback}, count=1).description
    run = client.schedules.trigger(callback, request_key=callback)
    assert client.schedules.trigger(callback, request_key=callback).id == run.id
    eventually(lambda: [one.id for one in client.schedules.runs(callback)] == [run.id])
    read, etag = client.schedules.get_tagged(callback)
    assert read.cron == "0 9 * * *"
    assert client.schedules.pause(callback, reason="holidays").state == "paused"
    assert client.schedules.resume(callback).state == "live"
    with pytest.raises(errors.Conflict):
        client.schedules.set(callback, if_none_match="*", every="1h", task={"callback": callback})
    assert client.schedules.set(callback, if_match=etag, every="1h", task={"callback": callback}).every
    assert callback in [one.name for one in client.schedules.list()]
    exported = [one for one in client.schedules.export() if one.name == callback]
    assert [one.outcome for one in client.schedules.import_all(exported)] == ["unchanged"]
    assert client.schedules.delete(callback).generation >= 1


def test_callbacks_hold_their_tasks(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def run() -> None:
        pass

    client.callbacks.set(callback, max_attempts=5, retention=datetime.timedelta(days=1), rate={"per_second": 100})
    assert client.callbacks.get(callback).retention == datetime.timedelta(days=1)
    with worker:
        assert client.callbacks.pause(callback, reason="its database moves").gate == "paused"
        time.sleep(2.1)
        task = client.register(callback)
        assert client.wait(task.id, 0.5).state == "enqueued"
        assert client.callbacks.resume(callback).gate == "open"
        assert client.wait(task.id, 10).state == "succeeded"
    assert callback in [one.name for one in client.callbacks.list(page_size=1)]
    client.callbacks.delete(callback)


def test_lists_are_iterators_over_pages(client: Client, callback: str) -> None:
    made = client.register_many([{"callback": callback, "delay": 3600 + n, "labels": {"half": str(n % 2)}} for n in range(25)])
    ids = [one.id for one in made if isinstance(one, tickwheel.models.TaskResponse)]
    assert [one.id for one in client.list(callback=callback, page_size=4)] == ids
    assert [one.id for one in client.list(callback=callback, labels={"half": "1"})] == ids[1::2]
    assert next(client.list(callback=callback, page_size=1)).id == ids[0]


def test_a_batch_fails_one_by_one(client: Client, callback: str) -> None:
    made = client.register_many([{"callback": callback, "delay": "1h"}, {"callback": callback, "delay": "never"}])
    assert isinstance(made[0], tickwheel.models.TaskResponse)
    assert isinstance(made[1], errors.Refused)
    ids = [made[0].id, "01a2279a-aa19-8000-8fda-9b4c8f927dfd"]
    cancelled = client.cancel_many(ids)
    assert isinstance(cancelled[0], tickwheel.models.CancelTreeResponse)
    assert isinstance(cancelled[1], errors.NotFound)


def test_jobs_work_over_filters(client: Client, callback: str) -> None:
    client.register_many([{"callback": callback, "delay": "1h"}] * 5)
    dry = client.jobs.create(kind="cancel", filter={"callback": callback}, dry_run=True)
    assert dry.dry_run
    job = client.jobs.create(kind="cancel", filter={"callback": callback}, idempotency_key=callback)
    eventually(lambda: client.jobs.get(job.id).state == "completed")
    assert client.jobs.get(job.id).done == 5
    assert job.id in [one.id for one in client.jobs.list()]


def test_the_service_itself(client: Client) -> None:
    assert client.cluster.readiness().ready
    assert client.cluster.live()
    assert client.cluster.started()
    assert "tickwheel_" in client.cluster.metrics()
    assert client.cluster.nodes().nodes
    assert client.cluster.stats().pending
    assert len(b"".join(client.cluster.backup())) > 1000
    assert not client.access.whoami().keys_required


def test_access() -> None:
    with testing.service() as service:
        with pytest.raises(errors.Conflict) as none_yet:
            service.client.access.create_key(name="viewer", role="viewer")
        assert none_yet.value.code == "admin_key_needed"
        key = service.client.access.create_key(name="boss", role="admin").key
        with pytest.raises(errors.Forbidden):
            service.client.access.whoami()
        with Client(service.url, api_key=key) as admin:
            viewer = admin.access.create_key(name="viewer", role="viewer")
            with Client(service.url, api_key=viewer.key) as client, pytest.raises(errors.Forbidden):
                client.register("greet")
            assert {one.name for one in admin.access.keys()} == {"boss", "viewer"}  # noqa: SIM118
            admin.access.revoke_key(viewer.id)
            assert {"createApiKey", "revokeApiKey"} <= {one.action for one in admin.access.audit()}
            admin.callbacks.set("greet", max_attempts=3)
            items = [*admin.access.export_configuration()]
            assert [one.error for one in admin.access.import_configuration(items)] == [None] * len(items)
