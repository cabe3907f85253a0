"""How often a password may be tried: one check in a second, however many clients try at once.

A guess takes its place in the queue before its password is looked at, so a full queue refuses the right
password as well: no response tells a client more than the rate allows. One address may hold a part of the
queue only, so that a guessing client does not shut out the users at other addresses.
"""

from __future__ import annotations

from collections import Counter

CHECK_INTERVAL_S = 1.0
WAITING_MAX = 10
WAITING_PER_ADDRESS_MAX = 3


class TooManyAttempts(Exception):
    """The password was not looked at: too many others wait for their check."""


class Guesses:
    """Times are of one monotonic clock, in seconds; callers wait by themselves."""

    def __init__(self) -> None:
        self._next_at = 0.0
        """When the next password may be checked."""
        self._waiting: Counter[str] = Counter()

    def enter(self, address: str, now: float) -> float:
        """Reserve the next check for this address; the seconds until then. Call `leave` afterwards."""
        check_at = max(now, self._next_at)
        # Checks of clients that gave up stay reserved: giving up does not raise the rate.
        is_full = check_at - now > (WAITING_MAX - 1) * CHECK_INTERVAL_S
        if is_full or self._waiting[address] >= WAITING_PER_ADDRESS_MAX:
            raise TooManyAttempts
        self._waiting[address] += 1
        self._next_at = check_at + CHECK_INTERVAL_S
        return check_at - now

    def leave(self, address: str, *, right: bool, now: float) -> None:
        """The check is over. After the right password the next one need not wait, if the queue is empty."""
        self._waiting[address] -= 1
        if not self._waiting[address]:
            del self._waiting[address]
        if right and not self._waiting:
            self._next_at = now
