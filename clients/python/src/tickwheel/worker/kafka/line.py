"""The messages of a callback that wait: until they are due, and then until a handler is free."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Collection

from .message import TaskMessage
from .offsets import Place

_BATCH_MAX = 1000
# Of a request that may have 16 MiB, as base64.
_BYTES_MAX = 8 << 20
_RANKS = {"high": 0, "normal": 1}


class Waiting:
    """A message that is not claimed yet."""

    def __init__(self, place: Place, offset: int, value: bytes, message: TaskMessage) -> None:
        self.place, self.offset, self.value, self.message = place, offset, value, message
        self.not_before = message.start
        self.failures = 0
        self._rank = _RANKS.get(place[0].rpartition(".")[2], 2)

    def __lt__(self, other: Waiting) -> bool:
        return (self._rank, self.message.start) < (other._rank, other.message.start)


class Line:
    """Messages in the order of their priorities and starts. Safe for threads."""

    def __init__(self, places: int) -> None:
        self._changed = threading.Condition()
        self._held: list[tuple[float, int, Waiting]] = []
        self._ready: list[Waiting] = []
        self._free = places
        self._places = places
        self._closed = False

    def room(self) -> int:
        """How many messages more are of use: as many as handlers may run."""
        with self._changed:
            return 0 if self._closed else self._places - len(self._held) - len(self._ready)

    def hold(self, one: Waiting) -> None:
        """Takes a message until it is due."""
        with self._changed:
            heapq.heappush(self._held, (one.not_before, id(one), one))
            self._changed.notify_all()

    def take(self) -> list[Waiting]:
        """Waits for messages that are due, and takes a place for each; none once it is closed."""
        with self._changed:
            while not self._closed:
                now = time.time()
                while self._held and self._held[0][0] <= now:
                    heapq.heappush(self._ready, heapq.heappop(self._held)[2])
                batch, size = list[Waiting](), 0
                while self._ready and self._free > 0 and len(batch) < _BATCH_MAX and size < _BYTES_MAX:
                    one = heapq.heappop(self._ready)
                    batch.append(one)
                    size += len(one.value)
                    self._free -= 1
                if batch:
                    return batch
                self._changed.wait(self._held[0][0] - now if self._held else None)
            return []

    def free(self) -> None:
        """Gives a place back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def drop(self, places: Collection[Place]) -> None:
        """Drops what waits of partitions: another worker receives it."""
        with self._changed:
            self._held = [one for one in self._held if one[2].place not in places]
            self._ready = [one for one in self._ready if one.place not in places]
            heapq.heapify(self._held)
            heapq.heapify(self._ready)

    def close(self) -> None:
        """Hands out nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
