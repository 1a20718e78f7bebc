"""The worker of examples/kafka_worker.py with the callback `ledger`, for a test against real servers.

It writes each begin and each end of an attempt to the file that its argument names.
"""

import logging
import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from kafka_worker import Fatal, Later, Service, run_all


def write(what, task):
    """One write a line, so that a line is whole however the process ends."""
    os.write(LEDGER, f"{what} {task.id} {task.attempt} {round(time.time() * 1000)}\n".encode())


def ledger(task):
    write("begin", task)
    lost = task.lost.wait(task.payload["work_ms"] / 1000)
    write("end", task)
    if lost:
        raise Later("its lease is over", 0)
    outcome = task.payload.get("outcome")
    if outcome == "fail":
        raise Fatal("as it was asked to")
    if outcome == "retry" and task.attempt == 1:
        raise Later("once, as it was asked to", 1.0)
    return {"size": len(task.payload_bytes)}


LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
logging.basicConfig(level=logging.INFO)
service = Service(os.environ["TICKWHEEL_SERVER"], f"{socket.gethostname()}/{os.getpid()}")
kafka = {"bootstrap.servers": os.environ["TICKWHEEL_KAFKA"], "session.timeout.ms": 6000}
run_all(service, kafka, {"ledger": ledger}, 8)
