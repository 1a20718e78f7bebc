"""Programs of the tests in processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .conftest import eventually

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = str(Path(__file__).parents[1] / "src")


class Program:
    """A program that runs, and what it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((process.stdout, self.lines), (process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))

    def count(self, word: str) -> int:
        """How many lines begin with a word."""
        return sum(line.startswith(word) for line in list(self.lines))

    def said(self, word: str, times: int = 1, within: float = 30) -> None:
        """Waits until it has said a word so often."""
        try:
            eventually(lambda: self.count(word) >= times, within)
        except AssertionError:
            raise AssertionError(f"it has not said {word!r} {times} times: {self.lines[-5:]} {self.errors[-5:]}") from None

    def signal(self, number: int) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def ended(self, within: float = 30) -> int:
        """Waits for its end. Returns its exit status."""
        status = self.process.wait(within)
        for reader in self._readers:
            reader.join(5)
        return status


@contextmanager
def program(*command: str, **environment: str) -> Iterator[Program]:
    """Runs a Python program with the package of this repository; kills it behind the test."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
    )
    try:
        yield Program(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


@contextmanager
def worker(url: str, callback: str, seconds: float, concurrency: int = 4, drain: float = 10) -> Iterator[Program]:
    """Runs `programs/worker.py`."""
    with program(str(PROGRAMS / "worker.py"), url, callback, str(seconds), str(concurrency), DRAIN=str(drain)) as one:
        one.said("ready")
        yield one
