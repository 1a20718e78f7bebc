"""A service for tests, with a directory of its own.

    with tickwheel.testing.service() as service:
        task = service.client.register("remind", {"name": "Ada"}, delay=timedelta(days=3))
        service.advance(days=3)

It ends with the `with`, and also with the process that started it, however that ends: nothing is left over.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from ._sync.client import Client
from ._values import Duration
from .errors import TickwheelError
from .models import AdvanceClockResponse

__all__ = ["Service", "ServiceFailed", "find_program", "service"]

_START_LIMIT = 30.0
_READY = re.compile(r"ready on (https?://\S+)")

# Holds the service for a test. Its input ends when the test does, even by SIGKILL; then it ends the service and removes the
# directory. It has a session of its own, so that an interrupt from the keyboard reaches the test alone.
_KEEPER = """
import os, shutil, signal, subprocess, sys
directory, log, *command = sys.argv[1:]
with open(log, "wb") as output:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output)
print(child.pid, flush=True)
sys.stdin.buffer.read()
child.kill()
child.wait()
shutil.rmtree(directory, ignore_errors=True)
"""


class ServiceFailed(TickwheelError):
    """The program is not there, or did not start."""


class Service:
    """A service that runs."""

    def __init__(self, url: str, pid: int, directory: Path) -> None:
        self.url = url
        """Its address."""
        self.pid = pid
        """Its process, for tests that freeze it."""
        self.directory = directory
        """Its data, and its log in the file `log`."""

    @cached_property
    def client(self) -> Client:
        """A client of it."""
        return Client(self.url, api_key="")

    @property
    def now(self) -> datetime.datetime:
        """The time that its clock shows: times in tests are counted from it."""
        return self.client.clock.read().time

    def advance(
        self,
        by: datetime.timedelta | None = None,
        *,
        settle_within: Duration | None = None,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> AdvanceClockResponse:
        """Moves its clock forward, and stops at each due time on the way: starts, retries, schedules, expiries, deadlines.

        At each stop it waits until workers have done what came due, `settle_within` at most: 5 s of real time by default. So
        nothing is late, and what handlers register on the way takes part. The answer counts what was started (`fired`), what
        workers did not end in time (`unsettled`), and what no worker asks for (`waiting`).
        """
        rest = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self.client.clock.advance((by or datetime.timedelta()) + rest, settle_within=settle_within)

    def jump(self, to: datetime.datetime) -> None:
        """Moves its clock forward at once, as if it had been off meanwhile: what came due is late then."""
        self.client.clock.set(to)

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.directory / "log").read_text(errors="replace")


def find_program() -> str:
    """The program: `$TICKWHEEL_BIN`, or `tickwheel` on the PATH.

    Raises:
        ServiceFailed: there is none.
    """
    found = os.environ.get("TICKWHEEL_BIN") or shutil.which("tickwheel")
    if not found:
        raise ServiceFailed("the program tickwheel is not on the PATH: install it, or name it by TICKWHEEL_BIN")
    return found


@contextmanager
def service(
    *,
    program: str | None = None,
    listen: str = "127.0.0.1:0",
    test_clock: bool = True,
    arguments: Sequence[str] = (),
) -> Iterator[Service]:
    """Starts a service with a directory and a port of its own, and ends it.

    Args:
        program: the program; see `find_program`.
        listen: its address; a port that is free by default.
        test_clock: whether its clock can be moved. If not, concurrent registrations take less time.
        arguments: further ones for `tickwheel dev`, such as `["--log", "debug"]`.

    Raises:
        ServiceFailed: the program is not there, or did not start.
    """
    clock = ["--test-clock"] if test_clock else []
    command = [program or find_program(), "dev", "--listen", listen, *clock, *arguments]
    directory = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    log = directory / "log"
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _KEEPER, str(directory), str(log), *command, "--data-dir", str(directory / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert keeper.stdout is not None
        pid = keeper.stdout.readline()
        if not pid:
            _, error = keeper.communicate()
            raise ServiceFailed(f"{command[0]} cannot be started: {error.decode(errors='replace').strip()[-300:]}")
        running = Service(_address(log, int(pid)), int(pid), directory)
        yield running
        if "client" in vars(running):
            running.client.close()
    finally:
        keeper.communicate()
        shutil.rmtree(directory, ignore_errors=True)


def _address(log: Path, pid: int) -> str:
    """Waits until a service has started. Returns its address."""
    end = time.monotonic() + _START_LIMIT
    while True:
        text = log.read_text(errors="replace")
        found = _READY.search(text)
        if found:
            return found[1]
        if time.monotonic() > end or not _runs(pid):
            raise ServiceFailed(f"the service did not start: {text.strip()[-500:] or 'it has logged nothing'}")
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether a process runs that may have ended without being waited for."""
    if not Path("/proc/self").exists():  # a system without it: the time limit holds
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
