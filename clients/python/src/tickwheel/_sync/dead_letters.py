# Written by scripts/unasync.py from _aio/dead_letters.py: change that file, then run `make clients`.
"""Calls about dead tasks: those that used up their attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import _encode
from .._call import Call
from ..models import DeadLetter, DeadLetterGroup, JobResponse, ListDeadLettersAnswer, RedriveResponse
from .group import Group

Groups = list[DeadLetterGroup]  # in the class below `list` is a method


class DeadLetters(Group):
    """Dead tasks stay until somebody runs them again or deletes them."""

    def list(
        self, *, callback: str | None = None, error: str | None = None, page_size: int | None = None
    ) -> Iterator[DeadLetter]:
        """Dead tasks, of a callback, and of errors that contain a text."""
        query = {"callback": callback, "error": error, "page_size": page_size}
        call: Call[ListDeadLettersAnswer] = Call(
            "listDeadLetters", "GET", "/v1/dead-letters", ListDeadLettersAnswer, query=query, repeatable=True
        )
        return self._items(call, lambda page: page.dead_letters)

    def groups(self, *, callback: str | None = None) -> Sequence[DeadLetterGroup]:
        """Dead tasks counted by callback and error."""
        call: Call[Groups] = Call(
            "groupDeadLetters",
            "GET",
            "/v1/dead-letters:groups",
            Groups,
            query={"callback": callback},
            repeatable=True,
        )
        return self._send(call)

    def redrive(
        self,
        ids: Sequence[str] | None = None,
        *,
        callback: str | None = None,
        error: str | None = None,
        rate_per_second: float | None = None,
        dry_run: bool = False,
        request_key: str | None = None,
    ) -> RedriveResponse | JobResponse:
        """Runs dead tasks again: these, or all of a callback and error, as a job where they are many."""
        body = {
            "ids": ids and [*ids],
            "callback": callback,
            "error": error,
            "rate_per_second": rate_per_second,
            "dry_run": dry_run,
        }
        call: Call[RedriveResponse | JobResponse] = Call(
            "redriveDeadLetters",
            "POST",
            "/v1/dead-letters/redrive",
            RedriveResponse | JobResponse,
            headers={"idempotency-key": request_key},
            body=_encode.request(body),
            repeatable=request_key is not None or dry_run,
        )
        return self._send(call)

    def delete(self, id: str) -> None:
        """Deletes a dead task."""
        call: Call[None] = Call("deleteDeadLetter", "DELETE", "/v1/dead-letters/{id}", None, {"id": id}, repeatable=True)
        self._send(call)
