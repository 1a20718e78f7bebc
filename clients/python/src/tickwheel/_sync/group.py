# Written by scripts/unasync.py from _aio/group.py: change that file, then run `make clients`.
"""What the groups of calls have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._call import Call
from .transport import Transport

T = TypeVar("T")
P = TypeVar("P")


class Group:
    """Calls of one kind."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _send(self, call: Call[T]) -> T:
        return self._transport.send(call)

    def _items(self, call: Call[P], items: Callable[[P], list[T]]) -> Iterator[T]:
        """The items of all pages of a list, page by page as they are asked for."""
        token: str | None = ""
        while token is not None:
            page: Any = self._send(call.with_page(token) if token else call)
            for item in items(page):
                yield item
            token = page.next_page_token
