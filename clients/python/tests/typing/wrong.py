"""Wrong uses. A test runs `mypy --strict` over them: each marked line must be an error of this kind, and no other line."""

import asyncio
import datetime

from tickwheel import AsyncClient, Client, Job, Retry, Snooze, Worker

client = Client()
worker = Worker()

client.register("greet", delai=2)  # error: call-arg
client.register(7)  # error: arg-type
client.register("greet", delay=[])  # error: arg-type
client.register("greet", start_time=datetime.date(2030, 1, 1))  # error: arg-type
client.register("greet", on_conflict="never")  # error: arg-type
client.register("greet", children=[{"callbak": "x"}])  # error: typeddict-unknown-key
client.register("greet", max_attempts="3")  # error: arg-type
client.register(name="greet")  # error: call-arg
client.get(task_id="x")  # error: call-arg
print(client.get("x").stat)  # error: attr-defined
print(client.get("x").state == "ended")  # error: comparison-overlap
client.list(state="done")  # error: arg-type
client.schedules.set("x", cron=5)  # error: arg-type
client.callbacks.gate("x", "shut")  # error: arg-type
client.jobs.create(kind="destroy")  # error: arg-type
client.dead_letters.redrive("x", dry_run="yes")  # error: arg-type
Client(timeout=None)  # error: arg-type
Client(server="x")  # error: call-arg
Retry("x", delay=object())  # error: arg-type
Snooze()  # error: call-arg
worker.task(3)  # error: arg-type
worker.task("x", concurrency="many")  # error: arg-type


@worker.task("three")  # error: type-var
def three(a: int, b: Job, c: int) -> None: ...


@worker.task("other")  # error: type-var
def other(payload: int, job: str) -> None: ...


async def main() -> None:
    async with AsyncClient() as aclient:
        print(aclient.register("greet").id)  # error: attr-defined
        for _ in aclient.list():  # error: attr-defined
            pass
    with AsyncClient():  # error: attr-defined
        pass


asyncio.run(main)  # error: arg-type
