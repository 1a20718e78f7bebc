"""A worker in a process of its own, which says what it does.

worker.py URL CALLBACK SECONDS [concurrency]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import tickwheel
from tickwheel import Interrupted, Job, Worker

url, callback, length = sys.argv[1], sys.argv[2], float(sys.argv[3])
worker = Worker(url, concurrency=int(sys.argv[4]) if len(sys.argv) > 4 else 4, drain_timeout=float(os.environ.get("DRAIN", 10)))


def say(*words: object) -> None:
    # In one piece: several threads speak.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@worker.task(callback)
def run(how: object, job: Job) -> str:
    say("begin", job.id, job.attempt)
    try:
        if how == "sleep":
            time.sleep(length)
        else:
            end = time.monotonic() + length
            while time.monotonic() < end:
                time.sleep(0.01)
    except Interrupted as why:
        say("interrupted", job.id, job.attempt, type(why).__name__)
        raise
    say("end", job.id, job.attempt)
    return "done"


@worker.task(callback + "-async")
async def run_async(_: object, job: Job) -> str:
    say("begin", job.id, job.attempt)
    try:
        await asyncio.sleep(length)
    except asyncio.CancelledError:
        say("interrupted", job.id, job.attempt, "CancelledError")
        raise
    say("end", job.id, job.attempt)
    return "done"


say("ready", tickwheel.__version__)
worker.run()
say("stopped")
