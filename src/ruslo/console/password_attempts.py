"""Limits password attempts to one check per second over all clients.

An attempt is queued before its password is read. A full queue therefore rejects correct passwords too, and no
response reveals more than the rate allows. One address can use only a part of the queue, so a guessing client
does not lock out users at other addresses.
"""

from __future__ import annotations

from collections import Counter

CHECK_INTERVAL_S = 1.0
WAITING_MAX = 10
WAITING_PER_ADDRESS_MAX = 3


class TooManyAttempts(Exception):
    """The password was not checked: too many attempts are queued."""


class PasswordAttempts:
    """A queue of checks. Times are monotonic seconds; callers do the waiting."""

    def __init__(self) -> None:
        self._next_at = 0.0
        """The time of the next check."""
        self._waiting: Counter[str] = Counter()

    def enter(self, address: str, now: float) -> float:
        """Reserve the next check; returns the seconds until then. Call `leave` afterwards."""
        check_at = max(now, self._next_at)
        # Checks of disconnected clients stay reserved, so disconnecting does not raise the rate.
        is_full = check_at - now > (WAITING_MAX - 1) * CHECK_INTERVAL_S
        if is_full or self._waiting[address] >= WAITING_PER_ADDRESS_MAX:
            raise TooManyAttempts
        self._waiting[address] += 1
        self._next_at = check_at + CHECK_INTERVAL_S
        return check_at - now

    def leave(self, address: str, *, correct: bool, now: float) -> None:
        """The check is done. After a correct password, with an empty queue, the next check is immediate."""
        self._waiting[address] -= 1
        if not self._waiting[address]:
            del self._waiting[address]
        if correct and not self._waiting:
            self._next_at = now
