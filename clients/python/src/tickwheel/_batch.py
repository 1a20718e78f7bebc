"""Batches: what concurrent callers of one client send together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

R = TypeVar("R")

ITEMS_MAX = 256
BYTES_MAX = 1 << 20


@dataclass(eq=False)
class Entry(Generic[R]):
    """What one caller wants to have sent, and until when it waits."""

    item: bytes
    end: float
    trace: Mapping[str, str] = field(default_factory=dict)
    """The headers of its trace: a request has one trace, so only callers of one trace travel together."""
    signal: Any = None
    """Wakes its caller: an event of threads, or a future."""
    leads: bool = False
    """Whether its caller is the one that sends: of threads."""
    result: R | Exception | None = None

    @property
    def left(self) -> float:
        """Seconds that its caller still waits."""
        return self.end - time.monotonic()


def take(waiting: deque[Entry[R]]) -> list[Entry[R]]:
    """Takes the next batch off the queue: in order, at least one, within the bounds."""
    batch: list[Entry[R]] = []
    size = 0
    while waiting and len(batch) < ITEMS_MAX:
        entry = waiting[0]
        size += len(entry.item) + 1
        if batch and (size > BYTES_MAX or entry.trace != batch[0].trace):
            break
        batch.append(waiting.popleft())
    return batch


def joined(name: str, items: list[bytes], more: bytes = b"") -> bytes:
    """The JSON object of a batch whose items are written already."""
    return b'{"' + name.encode() + b'":[' + b",".join(items) + b"]" + more + b"}"
