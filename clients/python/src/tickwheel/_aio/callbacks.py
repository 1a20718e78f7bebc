"""Calls about callbacks: defaults, limits, gates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .. import _encode
from .._call import Call
from .._compat import Unpack
from .._events import EventParts
from .._values import Instant
from ..models import CallbackResponse, GateState, ListCallbacksAnswer
from ..requests import CallbackRequest
from .group import Group


class Callbacks(Group):
    """Callbacks need no set-up, and can have one."""

    def list(self, *, page_size: int | None = None) -> AsyncIterator[CallbackResponse]:
        """All callbacks that something is set for."""
        call: Call[ListCallbacksAnswer] = Call(
            "listCallbacks",
            "GET",
            "/v1/callbacks",
            ListCallbacksAnswer,
            query={"page_size": page_size},
            repeatable=True,
        )
        return self._items(call, lambda page: page.callbacks)

    async def events(self, name: str) -> AsyncIterator[tuple[str, Any]]:
        """Type and data of each event of a callback: `scope` comes first, then `state`, and `missed` where some were lost."""
        call: Call[bytes] = Call("watchCallback", "GET", "/v1/callbacks/{name}/events", bytes, {"name": name})
        parts = EventParts()
        async for piece in self._transport.stream(call):
            for event in parts.feed(piece):
                yield event

    async def get(self, name: str) -> CallbackResponse:
        """A callback: its configuration, its gates, and what it does now."""
        answer, _ = await self.get_tagged(name)
        return answer

    async def get_tagged(self, name: str) -> tuple[CallbackResponse, str | None]:
        """A callback, and its `ETag` for `if_match`."""
        call: Call[CallbackResponse] = Call(
            "getCallback", "GET", "/v1/callbacks/{name}", CallbackResponse, {"name": name}, repeatable=True
        )
        return await self._transport.send_tagged(call)

    async def set(
        self,
        name: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        **configuration: Unpack[CallbackRequest],
    ) -> CallbackResponse:
        """Sets the whole configuration of a callback; what is left out has the service's default again.

        Raises:
            Conflict: it is not of the version `if_match`, or it exists and `if_none_match` is `"*"`.
        """
        call: Call[CallbackResponse] = Call(
            "setCallback",
            "PUT",
            "/v1/callbacks/{name}",
            CallbackResponse,
            {"name": name},
            headers={"if-match": if_match, "if-none-match": if_none_match},
            body=_encode.request(configuration),
            repeatable=if_match is None and if_none_match is None,
        )
        return await self._send(call)

    async def delete(self, name: str, *, if_match: str | None = None) -> None:
        """Removes what is set for a callback."""
        call: Call[None] = Call(
            "deleteCallback", "DELETE", "/v1/callbacks/{name}", None, {"name": name}, headers={"if-match": if_match}
        )
        await self._send(call)

    async def gate(
        self,
        name: str,
        gate: GateState,
        *,
        collection: str | None = None,
        reason: str | None = None,
        until: Instant | None = None,
    ) -> CallbackResponse:
        """Opens or closes the gate of a callback, or of one collection of it."""
        body = {"gate": gate, "collection": collection, "reason": reason, "until": until}
        call: Call[CallbackResponse] = Call(
            "setGate",
            "POST",
            "/v1/callbacks/{name}/gate",
            CallbackResponse,
            {"name": name},
            body=_encode.request(body),
            repeatable=True,
        )
        return await self._send(call)

    async def pause(self, name: str, *, reason: str | None = None, until: Instant | None = None) -> CallbackResponse:
        """Holds due tasks from two seconds on; attempts that run go on."""
        return await self.gate(name, "paused", reason=reason, until=until)

    async def resume(self, name: str) -> CallbackResponse:
        """Lets held tasks go, oldest first."""
        return await self.gate(name, "open")
