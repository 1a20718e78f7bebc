"""What a handler may know of its task."""

from __future__ import annotations

import datetime
import threading
from typing import Any

from ..models import ClaimedTask, DependencyResponse, PreviousResponse
from .attempt import Attempt


class Job:
    """The task that a handler runs. A handler gets it by a second parameter, or by one that is annotated with `Job`."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.task: ClaimedTask = attempt.task
        """All that the service says of the task."""

    @property
    def id(self) -> str:
        """The id of the task. With `attempt` it is the fencing token: hand both to whatever you change."""
        return self.task.id

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self.task.attempt

    @property
    def callback(self) -> str:
        """The name that the handler is registered for."""
        return self.task.callback

    @property
    def start_time(self) -> datetime.datetime:
        """When the task was to start."""
        return self.task.start_time

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.task.labels or {}

    @property
    def previous(self) -> PreviousResponse | None:
        """The task that this one follows."""
        return self.task.previous

    @property
    def dependencies(self) -> list[DependencyResponse]:
        """The tasks that this one waited for, in the order of their ids, with results of up to 4 KiB."""
        return self.task.dependencies or []

    @property
    def cancelled(self) -> threading.Event:
        """Set when somebody asks to cancel the task: stop soon, and return or raise as you like."""
        return self._attempt.cancelled

    def report(self, progress: Any) -> None:
        """Notes how far it is, in any form of JSON: sent with the next heartbeat, and read with the task."""
        self._attempt.progress = progress
