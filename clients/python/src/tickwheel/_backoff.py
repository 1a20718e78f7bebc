"""How long to wait before a call is repeated."""

from __future__ import annotations

import random

# A restart of a server takes a second; after a long outage a worker is back soon.
_FIRST, _LONGEST = 0.1, 5.0
# The longest wait that a service may ask for.
_ASKED_MAX = 30.0


class Backoff:
    """Waits that double, with full jitter, so that clients that failed together do not come back together."""

    def __init__(self) -> None:
        self.failures = 0

    def failed(self, asked: float | None = None) -> float:
        """Notes a failure. Returns the seconds to wait: at least what the service asked for, up to half a minute."""
        longest = min(_LONGEST, _FIRST * 2 ** min(self.failures, 10))
        self.failures += 1
        own = max(_FIRST, random.uniform(0, longest))
        if asked is None:
            return own
        # Spread behind what was asked for: everybody was told the same second.
        return max(own, min(asked, _ASKED_MAX) + random.uniform(0, _FIRST * 2))

    def succeeded(self) -> None:
        """Notes a success."""
        self.failures = 0
