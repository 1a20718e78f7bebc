"""Calls about schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from .. import _encode
from .._call import Call
from .._compat import Unpack
from .._values import Instant, instant_text
from ..models import (
    DeleteScheduleAnswer,
    ExportSchedulesAnswer,
    ImportScheduleResult,
    ImportSchedulesAnswer,
    JobResponse,
    ListRunsResponse,
    ListSchedulesAnswer,
    NamedSchedule,
    Overlap,
    PreviewResponse,
    RunResponse,
    ScheduleResponse,
    ScheduleWhyResponse,
    TaskResponse,
)
from ..requests import NamedSchedule as NamedScheduleRequest
from ..requests import ScheduleRequest
from .group import Group

_ONE = "/v1/schedules/{name}"


class Schedules(Group):
    """Tasks that start at the times of a clock."""

    def list(self, *, page_size: int | None = None) -> AsyncIterator[ScheduleResponse]:
        """All schedules, by name."""
        call: Call[ListSchedulesAnswer] = Call(
            "listSchedules",
            "GET",
            "/v1/schedules",
            ListSchedulesAnswer,
            query={"page_size": page_size},
            repeatable=True,
        )
        return self._items(call, lambda page: page.schedules)

    async def get(self, name: str) -> ScheduleResponse:
        """A schedule, and its next runs."""
        answer, _ = await self.get_tagged(name)
        return answer

    async def get_tagged(self, name: str) -> tuple[ScheduleResponse, str | None]:
        """A schedule, and its `ETag` for `if_match`."""
        call: Call[ScheduleResponse] = Call("getSchedule", "GET", _ONE, ScheduleResponse, {"name": name}, repeatable=True)
        return await self._transport.send_tagged(call)

    async def set(
        self,
        name: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        request_key: str | None = None,
        **schedule: Unpack[ScheduleRequest],
    ) -> ScheduleResponse:
        """Sets a schedule as a whole. Repetitions with one `request_key` are one change.

        Raises:
            Conflict: it is not of the version `if_match`, or it exists and `if_none_match` is `"*"`.
        """
        headers = {"if-match": if_match, "if-none-match": if_none_match, "idempotency-key": request_key}
        call: Call[ScheduleResponse] = Call(
            "setSchedule",
            "PUT",
            _ONE,
            ScheduleResponse,
            {"name": name},
            headers=headers,
            body=_encode.request(schedule),
            repeatable=request_key is not None,
        )
        return await self._send(call)

    async def delete(self, name: str, *, if_match: str | None = None) -> DeleteScheduleAnswer:
        """Deletes a schedule; runs that wait are cancelled."""
        call: Call[DeleteScheduleAnswer] = Call(
            "deleteSchedule", "DELETE", _ONE, DeleteScheduleAnswer, {"name": name}, headers={"if-match": if_match}
        )
        return await self._send(call)

    async def pause(self, name: str, *, reason: str | None = None, who: str | None = None) -> ScheduleResponse:
        """Starts no further runs."""
        body = _encode.request({"reason": reason, "who": who})
        call: Call[ScheduleResponse] = Call(
            "pauseSchedule", "POST", _ONE + "/pause", ScheduleResponse, {"name": name}, body=body, repeatable=True
        )
        return await self._send(call)

    async def resume(self, name: str) -> ScheduleResponse:
        """Goes on; what was missed comes by the rule of the schedule."""
        call: Call[ScheduleResponse] = Call(
            "resumeSchedule", "POST", _ONE + "/resume", ScheduleResponse, {"name": name}, repeatable=True
        )
        return await self._send(call)

    async def trigger(self, name: str, *, request_key: str | None = None) -> TaskResponse:
        """Starts a run now. Repetitions with one `request_key` are one run."""
        call: Call[TaskResponse] = Call(
            "triggerSchedule",
            "POST",
            _ONE + "/trigger",
            TaskResponse,
            {"name": name},
            headers={"idempotency-key": request_key},
            repeatable=request_key is not None,
        )
        return await self._send(call)

    async def backfill(
        self,
        name: str,
        start: Instant,
        end: Instant,
        *,
        overlap: Overlap | None = None,
        rate_per_second: float | None = None,
        dry_run: bool = False,
        request_key: str | None = None,
    ) -> JobResponse:
        """Runs a schedule for the times between two instants, as a job."""
        body = {
            "from": instant_text(start),
            "to": instant_text(end),
            "overlap": overlap,
            "rate_per_second": rate_per_second,
            "dry_run": dry_run,
        }
        call: Call[JobResponse] = Call(
            "backfillSchedule",
            "POST",
            _ONE + "/backfill",
            JobResponse,
            {"name": name},
            headers={"idempotency-key": request_key},
            body=_encode.request(body),
            repeatable=request_key is not None or dry_run,
        )
        return await self._send(call)

    def runs(self, name: str, *, page_size: int | None = None) -> AsyncIterator[RunResponse]:
        """The runs of a schedule, newest first."""
        call: Call[ListRunsResponse] = Call(
            "listScheduleRuns",
            "GET",
            _ONE + "/runs",
            ListRunsResponse,
            {"name": name},
            query={"page_size": page_size},
            repeatable=True,
        )
        return self._items(call, lambda page: page.runs)

    async def preview(self, name: str, *, count: int | None = None, start: Instant | None = None) -> PreviewResponse:
        """The next times of a schedule."""
        query = {"count": count, "from": None if start is None else instant_text(start)}
        call: Call[PreviewResponse] = Call(
            "previewSchedule", "GET", _ONE + "/preview", PreviewResponse, {"name": name}, query=query, repeatable=True
        )
        return await self._send(call)

    async def why(self, name: str, *, time: Instant | None = None) -> ScheduleWhyResponse:
        """The cause that a time has no run, or its run; without a time, of the last one that has passed."""
        query = {"time": None if time is None else instant_text(time)}
        call: Call[ScheduleWhyResponse] = Call(
            "explainSchedule", "GET", _ONE + "/why", ScheduleWhyResponse, {"name": name}, query=query, repeatable=True
        )
        return await self._send(call)

    async def check(
        self,
        *,
        name: str | None = None,
        count: int | None = None,
        start: Instant | None = None,
        **schedule: Unpack[ScheduleRequest],
    ) -> PreviewResponse:
        """The times that a schedule would have; nothing is set. `start` is where the preview begins."""
        query = {"name": name, "count": count, "from": None if start is None else instant_text(start)}
        call: Call[PreviewResponse] = Call(
            "checkSchedule",
            "POST",
            "/v1/schedules:preview",
            PreviewResponse,
            query=query,
            body=_encode.request(schedule),
            repeatable=True,
        )
        return await self._send(call)

    def export(self, *, page_size: int | None = None) -> AsyncIterator[NamedSchedule]:
        """All schedules, in the form that an import takes."""
        call: Call[ExportSchedulesAnswer] = Call(
            "exportSchedules",
            "GET",
            "/v1/schedules:export",
            ExportSchedulesAnswer,
            query={"page_size": page_size},
            repeatable=True,
        )
        return self._items(call, lambda page: page.schedules)

    async def import_all(self, schedules: Sequence[NamedScheduleRequest | NamedSchedule]) -> Sequence[ImportScheduleResult]:
        """Sets many schedules; each has its own result."""
        call: Call[ImportSchedulesAnswer] = Call(
            "importSchedules",
            "POST",
            "/v1/schedules:import",
            ImportSchedulesAnswer,
            body={"schedules": [_encode.item(one) for one in schedules]},
            repeatable=True,
        )
        return (await self._send(call)).results
