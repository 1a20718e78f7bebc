"""The parts of a stream of server-sent events."""

from __future__ import annotations

import json
from typing import Any


class EventParts:
    """Makes events of the pieces of a stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[tuple[str, Any]]:
        """The type and the data of each event that is whole now."""
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        events = []
        for text in whole:
            fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if ": " in line)
            if "data" in fields:
                events.append((fields.get("event", "message"), json.loads(fields["data"])))
        return events
