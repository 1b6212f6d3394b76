"""Locks and forks: a forked process has one thread, and may inherit locks that none of its threads can release."""

import os
from typing import Any
from weakref import WeakSet

_followed: WeakSet[Any] = WeakSet()


def follow_forks(owner: Any) -> None:
    """Call `owner.after_fork()` in every process that is forked from this one, as long as the owner exists."""
    _followed.add(owner)


def _after_fork() -> None:
    for owner in list(_followed):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
