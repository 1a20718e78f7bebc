"""Uses that have to pass `mypy --strict`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel import AsyncClient, Client, Job, Worker, errors, models, requests, testing, webhooks


@dataclass
class Greeting:
    name: str


client = Client(["a:1", "b:1"], api_key="tw_x", timeout=datetime.timedelta(seconds=3))
worker = Worker(concurrency=3)
utc = datetime.timezone.utc

task: models.TaskResponse = client.register("greet", Greeting("Ada"), delay=1.5, labels={"a": "b"}, retry={"max": "1h"})
client.register("greet", start_time=datetime.datetime(2030, 1, 1, tzinfo=utc), delay=datetime.timedelta(days=1), key="k")
client.register(http={"url": "https://x.example"}, payload={"a": 1})
more: requests.TaskRequest = {"callback": "greet", "children": [{"callback": "x", "payload": [1]}]}
tasks: list[models.TaskResponse] = [one for one in client.register_many([more]) if isinstance(one, models.TaskResponse)]
pages: Iterator[models.TaskResponse] = client.list(callback="greet", state="dead")
started: datetime.datetime = task.start_time
kept: datetime.timedelta | None = task.retention


@worker.task("greet", concurrency=2, attempt_timeout="1m")
def greet(greeting: Greeting, job: Job) -> str:
    return f"{greeting.name} {job.attempt}"


@worker.task("nothing")
async def nothing() -> None: ...


text: str = greet(Greeting("x"), None)  # type: ignore[arg-type]


async def main() -> None:
    async with AsyncClient() as aclient, worker:
        one: models.TaskResponse = await aclient.register("greet")
        async for dead in aclient.dead_letters.list():
            print(dead.error, one.id)
        try:
            await aclient.jobs.get("x")
        except errors.ProblemError as error:
            print(error.code, error.field, error.trace_id, error.retryable)


def check(body: bytes, headers: dict[str, str]) -> webhooks.Webhook:
    with testing.service() as service:
        service.client.register("x")
    return webhooks.verify(body, headers, "whsec_x")
