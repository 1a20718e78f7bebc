# Written by scripts/unasync.py from _aio/jobs.py: change that file, then run `make clients`.
"""Calls about jobs: bulk work over filters."""

from __future__ import annotations

from collections.abc import Iterator

from .. import _encode
from .._call import Call
from .._compat import Unpack
from ..models import JobResponse, ListJobsAnswer
from ..requests import JobRequest
from .group import Group


class Jobs(Group):
    """Jobs cancel, redrive, reschedule or delete all tasks of a filter."""

    def create(self, **job: Unpack[JobRequest]) -> JobResponse:
        """Begins a job, or tells with `dry_run` what it would do. With `idempotency_key` repetitions are one job."""
        call: Call[JobResponse] = Call(
            "createJob",
            "POST",
            "/v1/jobs",
            JobResponse,
            body=_encode.request(job),
            repeatable=bool(job.get("idempotency_key") or job.get("dry_run")),
        )
        return self._send(call)

    def get(self, id: str) -> JobResponse:
        """A job, and how far it is."""
        call: Call[JobResponse] = Call("getJob", "GET", "/v1/jobs/{id}", JobResponse, {"id": id}, repeatable=True)
        return self._send(call)

    def list(self, *, page_size: int | None = None) -> Iterator[JobResponse]:
        """All jobs, newest first."""
        call: Call[ListJobsAnswer] = Call(
            "listJobs", "GET", "/v1/jobs", ListJobsAnswer, query={"page_size": page_size}, repeatable=True
        )
        return self._items(call, lambda page: page.jobs)

    def pause(self, id: str) -> JobResponse:
        """Stops a job for a while."""
        call: Call[JobResponse] = Call("pauseJob", "POST", "/v1/jobs/{id}/pause", JobResponse, {"id": id}, repeatable=True)
        return self._send(call)

    def resume(self, id: str) -> JobResponse:
        """Goes on with a job."""
        call: Call[JobResponse] = Call("resumeJob", "POST", "/v1/jobs/{id}/resume", JobResponse, {"id": id}, repeatable=True)
        return self._send(call)

    def cancel(self, id: str) -> JobResponse:
        """Ends a job; what it has done stays."""
        call: Call[JobResponse] = Call("cancelJob", "POST", "/v1/jobs/{id}/cancel", JobResponse, {"id": id}, repeatable=True)
        return self._send(call)
