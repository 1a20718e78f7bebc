"""Waiting for a signal, or for another thread, to stop a worker."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


class Stop:
    """A wait that signals and threads end.

    It is a pipe and no `threading.Event`: a signal handler that sets an event may wait for itself.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def set(self) -> None:
        """Ends the wait."""
        os.write(self._write, b"x")

    def wait(self) -> None:
        """Waits until it is set."""
        os.read(self._read, 1)

    def close(self) -> None:
        """Gives the pipe back."""
        os.close(self._read)
        os.close(self._write)

    def on_signals(self) -> list[tuple[signal.Signals, object]]:
        """Has SIGTERM and SIGINT end the wait; a second one ends the process at once. Returns what they did before.

        Only the main thread can: elsewhere they stay as they are.
        """
        if threading.current_thread() is not threading.main_thread():
            return []

        def first(number: int, frame: FrameType | None) -> None:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            self.set()

        return [(one, signal.signal(one, first)) for one in (signal.SIGTERM, signal.SIGINT)]


def restore(before: list[tuple[signal.Signals, object]]) -> None:
    """Has signals do again what they did before."""
    for number, action in before:
        if action is not None:  # None: it was not set by Python
            signal.signal(number, action)  # type: ignore[arg-type]
