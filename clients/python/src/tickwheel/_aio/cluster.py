"""Calls about the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .._call import Call
from .._values import Duration, duration_text
from ..models import ClusterResponse, ForecastResponse, IdsResponse, Readiness, StatsResponse
from .group import Group


class Cluster(Group):
    """Nodes, figures, health, copies."""

    async def nodes(self) -> ClusterResponse:
        """The nodes and the wheels."""
        call: Call[ClusterResponse] = Call("getCluster", "GET", "/v1/cluster", ClusterResponse, repeatable=True)
        return await self._send(call)

    async def stats(self) -> StatsResponse:
        """What a node does, what waits, and tasks that no worker takes."""
        call: Call[StatsResponse] = Call("getStats", "GET", "/v1/stats", StatsResponse, repeatable=True)
        return await self._send(call)

    async def forecast(
        self, *, callback: str | None = None, step: Duration | None = None, count: int | None = None
    ) -> ForecastResponse:
        """How many tasks are due in `count` steps ahead, of one callback or of all."""
        query = {"callback": callback, "step": None if step is None else duration_text(step), "count": count}
        call: Call[ForecastResponse] = Call("getForecast", "GET", "/v1/forecast", ForecastResponse, query=query, repeatable=True)
        return await self._send(call)

    async def ids(self) -> IdsResponse:
        """The time of the service, and its number of wheels."""
        call: Call[IdsResponse] = Call("getIds", "GET", "/v1/ids", IdsResponse, repeatable=True)
        return await self._send(call)

    async def readiness(self) -> Readiness:
        """Whether a node takes requests, and what it lacks."""
        call: Call[Readiness] = Call(
            "readyz", "GET", "/readyz", Readiness, query={"verbose": True}, repeatable=True, accepts=(503,)
        )
        return await self._send(call)

    async def live(self) -> str:
        """Answers when the process runs."""
        call: Call[str] = Call("livez", "GET", "/livez", str, repeatable=True)
        return await self._send(call)

    async def started(self) -> str:
        """Answers once a node has started."""
        call: Call[str] = Call("startupz", "GET", "/startupz", str, repeatable=True)
        return await self._send(call)

    async def metrics(self) -> str:
        """The metrics of a node, as Prometheus reads them."""
        call: Call[str] = Call("metrics", "GET", "/metrics", str, repeatable=True)
        return await self._send(call)

    def backup(self, *, bytes_per_second: int | None = None) -> AsyncIterator[bytes]:
        """A copy of the store of one machine, piece by piece."""
        body = {} if bytes_per_second is None else {"bytes_per_second": bytes_per_second}
        call: Call[bytes] = Call("createBackup", "POST", "/v1/backup", bytes, body=body)
        return self._transport.stream(call)
