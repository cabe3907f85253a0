"""How many of its previous tasks a member may keep, so that all members get about the same number."""

from __future__ import annotations


class Quota:
    """A share of the tasks, rounded up; it shrinks to the rounded-down share as members reach it."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.share = _ceil_div(task_count, member_count)

    def count(self, member_task_count: int) -> None:
        """Record that a member now has this many tasks; call it after each added task."""
        if member_task_count == self.share:
            self._task_count -= member_task_count
            self._member_count -= 1
            self.share = _ceil_div(self._task_count, self._member_count)


def _ceil_div(task_count: int, member_count: int) -> int:
    return -(-task_count // member_count) if member_count else 0
