"""What may be committed: messages are done in any order, and a mark passes none that is not done."""

from __future__ import annotations

from collections.abc import Iterable

Place = tuple[str, int]
"""A topic, and the number of a partition."""


class Offsets:
    """The messages of partitions that were received and are not done. One thread uses it."""

    def __init__(self) -> None:
        self._open: dict[Place, set[int]] = {}
        self._next: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}

    def received(self, place: Place, offset: int) -> None:
        """Notes a message."""
        self._open.setdefault(place, set()).add(offset)
        self._committed.setdefault(place, offset)
        self._next[place] = offset + 1

    def done(self, place: Place, offset: int) -> None:
        """Notes that nothing is to be done for a message any more."""
        self._open.get(place, set()).discard(offset)

    def forget(self, places: Iterable[Place]) -> None:
        """Lets go of partitions that another worker has now."""
        for place in places:
            for kept in (self._open, self._next, self._committed):
                kept.pop(place, None)

    def to_commit(self) -> dict[Place, int]:
        """The marks that have moved since they were committed."""
        marks = {place: min(waits) if waits else self._next[place] for place, waits in self._open.items()}
        return {place: mark for place, mark in marks.items() if mark > self._committed[place]}

    def committed(self, marks: dict[Place, int]) -> None:
        """Notes marks that were sent."""
        self._committed.update({place: mark for place, mark in marks.items() if place in self._committed})

    def failed(self, places: Iterable[Place]) -> None:
        """Has marks sent once more, which the broker did not take."""
        self._committed.update(dict.fromkeys((place for place in places if place in self._committed), -1))
