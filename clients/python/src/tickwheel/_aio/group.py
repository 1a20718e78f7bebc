"""What the groups of calls have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from .._call import Call
from .transport import AsyncTransport

T = TypeVar("T")
P = TypeVar("P")


class Group:
    """Calls of one kind."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _send(self, call: Call[T]) -> T:
        return await self._transport.send(call)

    async def _items(self, call: Call[P], items: Callable[[P], list[T]]) -> AsyncIterator[T]:
        """The items of all pages of a list, page by page as they are asked for."""
        token: str | None = ""
        while token is not None:
            page: Any = await self._send(call.with_page(token) if token else call)
            for item in items(page):
                yield item
            token = page.next_page_token
