"""The Python client that is generated from the description, at work.

    client.py http://127.0.0.1:7420        a running service

The client must have every call, read each answer of the examples without loss, and register, read and cancel a task.
"""

import datetime
import importlib
import pathlib
import re
import sys
from typing import Any

import httpx
import tickwheel_client
from tickwheel_client import Client
from tickwheel_client.api.callbacks import set_callback
from tickwheel_client.api.tasks import cancel_task, create_task, get_task
from tickwheel_client.models import (
    CallbackRequest,
    CallbackResponse,
    CallbackTargetResponse,
    CancelOutcome,
    CancelTreeResponse,
    HttpTarget,
    HttpTargetResponse,
    TaskRequest,
    TaskResponse,
    TaskState,
)

from description import load

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def alike(value: Any) -> Any:
    """A value as it can be compared: objects as the client writes them, times as times."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, dict):
        return {name: alike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [alike(item) for item in value]
    if isinstance(value, str) and INSTANT.fullmatch(value):
        return datetime.datetime.fromisoformat(value)
    return value


def reads_every_answer(client: Client) -> int:
    """Returns how many answers of the examples the client has read."""
    root = pathlib.Path(tickwheel_client.__file__).parent / "api"
    modules = {path.stem: f"tickwheel_client.api.{path.parent.name}.{path.stem}" for path in root.glob("*/[!_]*.py")}
    count = 0
    for name, operation in load().operations.items():
        module: Any = importlib.import_module(modules.pop(re.sub("([A-Z])", r"_\1", name).lower()))
        for status, body in operation.successes().items():
            if body is None or "example" not in body[1]:
                continue
            example, count = body[1]["example"], count + 1
            content = {"text": example} if isinstance(example, str) else {"json": example}
            read = module._parse_response(client=client, response=httpx.Response(int(status), **content))
            if alike(read) != alike(example):
                sys.exit(f"client.py: {name} {status} is read as {alike(read)}, not {example}")
    if modules:
        sys.exit(f"client.py: no call is called {', '.join(modules)}")
    return count


def registers_reads_and_cancels(client: Client, task: TaskRequest) -> TaskResponse:
    made = create_task.sync(client=client, body=task)
    assert isinstance(made, TaskResponse), made
    read = get_task.sync(str(made.id), client=client)
    assert isinstance(read, TaskResponse) and read.id == made.id, read
    cancelled = cancel_task.sync(str(made.id), client=client)
    assert isinstance(cancelled, CancelTreeResponse) and cancelled.outcome is CancelOutcome.CANCELLED, cancelled
    assert cancelled.task.state is TaskState.CANCELLED, cancelled
    return read


def main() -> None:
    with Client(base_url=sys.argv[1], timeout=httpx.Timeout(20)) as client:
        answers = reads_every_answer(client)
        configured = set_callback.sync("invoice", client=client, body=CallbackRequest(max_attempts=3))
        assert isinstance(configured, CallbackResponse), configured
        read = registers_reads_and_cancels(client, TaskRequest(callback="invoice", delay="1h"))
        assert isinstance(read.target, CallbackTargetResponse), read
        # The callback decides, since the client sends nothing that its user has not set.
        assert read.max_attempts == 3, read
        url = "http://127.0.0.1:9/invoice"
        read = registers_reads_and_cancels(client, TaskRequest(http=HttpTarget(url=url), delay="1h"))
        assert isinstance(read.target, HttpTargetResponse) and read.target.url == url, read
    print(f"the client in Python reads {answers} answers, and registers, reads and cancels a task")


if __name__ == "__main__":
    main()
