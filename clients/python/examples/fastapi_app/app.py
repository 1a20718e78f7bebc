"""Reminders over HTTP: FastAPI registers tasks, and runs them on the same event loop.

tickwheel dev &
uvicorn app:app
curl localhost:8000/reminders -H 'content-type: application/json' -d '{"text": "stand up", "seconds": 3}'
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from tickwheel import AsyncClient, Job, Worker, errors


class Reminder(BaseModel):
    text: str
    seconds: float = Field(ge=0, le=86_400)


# A worker of its own process scales better; beside a small application, this is enough.
worker = Worker(concurrency=50)


@worker.task("reminder")
async def remind(reminder: Reminder, job: Job) -> str:
    await asyncio.sleep(0)  # an e-mail, a message: whatever is awaited
    return f"{reminder.text} (attempt {job.attempt})"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient() as client, worker:
        app.state.tickwheel = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reminders", status_code=201)
async def create(reminder: Reminder) -> dict[str, str]:
    client: AsyncClient = app.state.tickwheel
    task = await client.register("reminder", reminder, delay=reminder.seconds)
    return {"id": task.id}


@app.get("/reminders/{id}")
async def read(id: str, wait: float = 0) -> dict[str, object]:
    client: AsyncClient = app.state.tickwheel
    try:
        task = await client.wait(id, min(wait, 30))
    except errors.NotFound:
        raise HTTPException(404, "there is no such reminder") from None
    return {"state": task.state, "result": task.result}
