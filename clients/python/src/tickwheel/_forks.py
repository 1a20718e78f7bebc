"""Clients in a process that was forked: it has the sockets of its parent, and locks that nobody will release."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    """Something that a fork makes useless until it is made anew."""

    def renew(self) -> None:
        """Forgets connections and locks."""


_all: weakref.WeakSet[Renewable] = weakref.WeakSet()


def remember(one: Renewable) -> None:
    """Renews it in every process that is forked from now on."""
    _all.add(one)


def _renew() -> None:
    for one in list(_all):
        one.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
