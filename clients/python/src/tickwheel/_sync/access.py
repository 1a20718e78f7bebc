# Written by scripts/unasync.py from _aio/access.py: change that file, then run `make clients`.
"""Calls about API keys, the audit, and the configuration as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import _encode
from .._call import Call
from .._compat import Unpack
from .._values import Instant, instant_text
from ..models import (
    ApiKeyResponse,
    AuditEntry,
    ConfigurationItem,
    ExportConfigurationAnswer,
    ImportConfigurationAnswer,
    ImportConfigurationResult,
    ListApiKeysAnswer,
    ListAuditAnswer,
    WhoAmIAnswer,
)
from ..requests import ApiKeyRequest
from ..requests import ConfigurationItem as ConfigurationItemRequest
from .group import Group


class Access(Group):
    """Who may do what, and who did it."""

    def whoami(self) -> WhoAmIAnswer:
        """What the API key of this client may do."""
        call: Call[WhoAmIAnswer] = Call("whoAmI", "GET", "/v1/whoami", WhoAmIAnswer, repeatable=True)
        return self._send(call)

    def create_key(self, **key: Unpack[ApiKeyRequest]) -> ApiKeyResponse:
        """Makes a key. Only this answer shows it."""
        call: Call[ApiKeyResponse] = Call("createApiKey", "POST", "/v1/api-keys", ApiKeyResponse, body=_encode.request(key))
        return self._send(call)

    def keys(self, *, page_size: int | None = None) -> Iterator[ApiKeyResponse]:
        """All keys, without their secrets."""
        call: Call[ListApiKeysAnswer] = Call(
            "listApiKeys", "GET", "/v1/api-keys", ListApiKeysAnswer, query={"page_size": page_size}, repeatable=True
        )
        return self._items(call, lambda page: page.api_keys)

    def revoke_key(self, id: str) -> None:
        """Ends a key."""
        call: Call[None] = Call("revokeApiKey", "DELETE", "/v1/api-keys/{id}", None, {"id": id}, repeatable=True)
        self._send(call)

    def audit(
        self, *, start: Instant | None = None, end: Instant | None = None, page_size: int | None = None
    ) -> Iterator[AuditEntry]:
        """The calls that changed the configuration or many tasks, or were refused."""
        query = {
            "from": None if start is None else instant_text(start),
            "to": None if end is None else instant_text(end),
            "page_size": page_size,
        }
        call: Call[ListAuditAnswer] = Call("listAudit", "GET", "/v1/audit", ListAuditAnswer, query=query, repeatable=True)
        return self._items(call, lambda page: page.entries)

    def export_configuration(self) -> Iterator[ConfigurationItem]:
        """All callbacks and API keys, in the form that an import takes."""
        token: str | None = None
        while True:
            call: Call[ExportConfigurationAnswer] = Call(
                "exportConfiguration",
                "POST",
                "/v1/configuration:export",
                ExportConfigurationAnswer,
                body=_encode.request({"page_token": token}),
                repeatable=True,
            )
            page = self._send(call)
            for item in page.items:
                yield item
            token = page.next_page_token
            if token is None:
                return

    def import_configuration(
        self, items: Sequence[ConfigurationItemRequest | ConfigurationItem]
    ) -> Sequence[ImportConfigurationResult]:
        """Sets callbacks and API keys; each has its own result."""
        call: Call[ImportConfigurationAnswer] = Call(
            "importConfiguration",
            "POST",
            "/v1/configuration:import",
            ImportConfigurationAnswer,
            body={"items": [_encode.item(one) for one in items]},
            repeatable=True,
        )
        return (self._send(call)).results
