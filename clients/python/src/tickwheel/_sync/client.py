# Written by scripts/unasync.py from _aio/client.py: change that file, then run `make clients`.
"""The client."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from .._call import Call
from .._compat import Self
from .._options import Options
from .._values import Duration
from .access import Access
from .callbacks import Callbacks
from .clock import Clock
from .cluster import Cluster
from .dead_letters import DeadLetters
from .jobs import Jobs
from .schedules import Schedules
from .tasks import Tasks
from .transport import Transport
from .worker_calls import WorkerCalls

T = TypeVar("T")


class Client(Tasks):
    """A client of the service: its own methods are about tasks, and the other calls lie in groups.

    Args:
        servers: an address, several with commas between them, or a list; `$TICKWHEEL_SERVER` or `http://127.0.0.1:7420`
            by default. Of several nodes the next one is asked when one does not answer.
        api_key: the key that each call is made with; `$TICKWHEEL_API_KEY` by default.
        timeout: the time for each call with its repetitions, and on top of what a call asks the service to wait.
        verify: how certificates of `https` are checked; an `ssl.SSLContext` for a CA or a client certificate of one's own.

    Raises:
        InvalidArgument: an address that is none.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        api_key: str | None = None,
        timeout: Duration = 10,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        transport = Transport(Options.checked(servers, api_key, timeout, verify))
        super().__init__(transport)
        self.callbacks = Callbacks(transport)
        self.schedules = Schedules(transport)
        self.dead_letters = DeadLetters(transport)
        self.jobs = Jobs(transport)
        self.access = Access(transport)
        self.cluster = Cluster(transport)
        self.clock = Clock(transport)
        self.worker = WorkerCalls(transport)

    def sibling(self) -> Client:
        """A client of the same servers with connections of its own."""
        options = self._transport.options
        client = Client(options.servers, timeout=options.timeout, verify=options.verify)
        client._transport.options.headers.update(options.headers)
        return client

    def call(self, call: Call[T], timeout: float | None = None) -> T:
        """Makes any call of the API, such as one that a later version of the service has."""
        return self._transport.send(call, timeout)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
