"""The worker, what its handlers get, and how they end."""

from .job import Job
from .outcomes import Fail, Interrupted, LeaseLost, Result, Retry, Snooze, Stopped, TimedOut
from .worker import Worker

__all__ = ["Fail", "Interrupted", "Job", "LeaseLost", "Result", "Retry", "Snooze", "Stopped", "TimedOut", "Worker"]
