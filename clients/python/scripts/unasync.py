#!/usr/bin/env python3
"""Writes the sync client from the async one: `src/tickwheel/_aio` is the source of `src/tickwheel/_sync`.

unasync.py [DIRECTORY]      where to write; src/tickwheel/_sync unless told otherwise
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tickwheel" / "_aio"
# Written by hand for each: threads and coroutines wait for each other in other ways.
BY_HAND = {"__init__.py", "coalesce.py"}
WORDS = [
    ("async def", "def"),
    ("async with", "with"),
    ("async for", "for"),
    ("await ", ""),
    ("Awaitable[list[R | TickwheelError]]", "list[R | TickwheelError]"),
    ("Awaitable, ", ""),
    ("AsyncClient", "Client"),
    ("AsyncTransport", "Transport"),
    ("AsyncCoalescer", "Coalescer"),
    ("AsyncIterator", "Iterator"),
    ("aclosing", "closing"),
    ("aclose", "close"),
    ("aiter_bytes", "iter_bytes"),
    ("aread", "read"),
    ("sleep_async", "sleep_sync"),
    ("lock_async", "lock_sync"),
    ("acquire_async", "acquire_sync"),
    ("__aenter__", "__enter__"),
    ("__aexit__", "__exit__"),
    ("__aiter__", "__iter__"),
    ("_aio", "_sync"),
]


def pattern(word: str) -> str:
    """Finds a word as a whole; one that ends with a space takes what is behind it as it is."""
    behind = "" if word.endswith(" ") else "(?![A-Za-z])"
    return f"(?<![A-Za-z]){re.escape(word)}{behind}"


PATTERN = re.compile("|".join(pattern(word) for word, _ in WORDS))
HEAD = "# Written by scripts/unasync.py from _aio/{}: change that file, then run `make clients`.\n"


def synchronous(text: str) -> str:
    """The same code without `async`."""
    words = dict(WORDS)
    return PATTERN.sub(lambda found: words[found[0]], text)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parent / "_sync"
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCE.glob("*.py")):
        if path.name not in BY_HAND:
            (target / path.name).write_text(HEAD.format(path.name) + synchronous(path.read_text()))


if __name__ == "__main__":
    main()
