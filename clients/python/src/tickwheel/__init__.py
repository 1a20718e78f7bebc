"""Client and worker of Tickwheel, a durable timer service."""

from . import errors, models, requests
from ._aio.client import AsyncClient
from ._sync.client import Client
from ._sync.tasks import has_ended
from ._values import Duration, Instant
from ._version import __version__
from .errors import TickwheelError
from .worker import Fail, Interrupted, Job, LeaseLost, Result, Retry, Snooze, Worker

__all__ = [
    "AsyncClient",
    "Client",
    "Duration",
    "Fail",
    "Instant",
    "Interrupted",
    "Job",
    "LeaseLost",
    "Result",
    "Retry",
    "Snooze",
    "TickwheelError",
    "Worker",
    "__version__",
    "errors",
    "has_ended",
    "models",
    "requests",
]
