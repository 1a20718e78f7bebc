"""A worker of the package for Python that consumes Kafka, with the callback `ledger`, for a test against real servers.

It writes each begin and each end of an attempt to the file that its argument names.
"""

import logging
import os
import socket
import sys
import time

from tickwheel import Fail, Job, Retry, Worker
from tickwheel.kafka import KafkaSource

LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
SOURCE = KafkaSource(os.environ["TICKWHEEL_KAFKA"], config={"session.timeout.ms": 6000})
worker = Worker(source=SOURCE, name=f"{socket.gethostname()}/{os.getpid()}", concurrency=8)


def write(what: str, job: Job) -> None:
    """One write a line, so that a line is whole however the process ends."""
    os.write(LEDGER, f"{what} {job.id} {job.attempt} {round(time.time() * 1000)}\n".encode())


@worker.task("ledger")
def ledger(payload: dict[str, object], job: Job) -> dict[str, int]:
    write("begin", job)
    try:
        until = time.monotonic() + float(str(payload["work_ms"])) / 1000
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
    finally:
        write("end", job)
    if payload.get("outcome") == "fail":
        raise Fail("as it was asked to")
    if payload.get("outcome") == "retry" and job.attempt == 1:
        raise Retry("once, as it was asked to", delay=1)
    return {"size": len(str(payload))}


logging.basicConfig(level=logging.INFO)
worker.run()
