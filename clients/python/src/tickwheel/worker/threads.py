"""Threads for handlers, and exceptions that are raised in them from outside."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from .outcomes import Interrupted

Work = Callable[[], None]


class Threads:
    """Threads that are made when they are needed and used again.

    They end with the process, unlike those of `concurrent.futures`: a handler that never returns must not keep a worker from
    ending.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def submit(self, work: Work) -> None:
        """Runs work in a thread that is free, or in a new one."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._run, name=f"tickwheel-task-{self._count}", daemon=True).start()
        self._work.put(work)

    def stop(self) -> None:
        """Ends the threads that are free."""
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        while True:
            # An exception may come a moment after its handler has ended.
            with suppress(Interrupted):
                work = self._work.get()
                if work is None:
                    return
                with suppress(Interrupted):
                    work()
                with self._lock:
                    self._idle += 1


class Interruptible:
    """A stretch of code in this thread that other threads may break off."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._inside = True

    def interrupt(self, why: type[Interrupted]) -> None:
        """Raises `why` at the next step of Python, unless the stretch is over."""
        with self._lock:
            if self._inside:
                _raise(self._thread, why)

    def leave(self) -> None:
        """Ends the stretch. What was to be raised and was not yet is dropped."""
        with self._lock:
            self._inside = False
            _raise(self._thread, None)


def _raise(thread: int, why: type[Interrupted] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(why) if why is not None else None)
