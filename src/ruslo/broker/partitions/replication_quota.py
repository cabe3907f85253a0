"""The replication quota: the rate at which throttled replicas are copied during a reassignment (KIP-73).

A topic setting lists the throttled replicas, a broker setting has the bytes per second; leader and follower
have one each. A leader never throttles members of the ISR: they would drop out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ruslo.model.clock import Clock

WINDOW_MS = 1_000
"""Unused quota expires after this time; overused quota has to be waited for."""
EVERY_REPLICA = "*"


def is_throttled(throttled: Sequence[str], partition: int, broker_id: int) -> bool:
    """``throttled``: the topic's list of "partition:broker", or "*"."""
    return bool(throttled) and (throttled[0] == EVERY_REPLICA or f"{partition}:{broker_id}" in throttled)


class ReplicationQuota:
    """A leaky bucket of bytes: a new rate also applies to the bytes that are in it."""

    def __init__(self, bytes_per_s: Callable[[], int], clock: Clock) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._rate = max(bytes_per_s(), 1)
        self._excess_bytes = float("-inf")
        """Bytes beyond the quota; below 0: bytes that may be copied at once, at most those of a window."""
        self._leaked_ms = clock.monotonic_ms()

    def record(self, size: int) -> None:
        self._leak()
        self._excess_bytes += size

    def pause_ms(self) -> int:
        """How long the next bytes have to wait."""
        self._leak()
        return max(0, int(self._excess_bytes * 1000 / self._rate))

    def _leak(self) -> None:
        now_ms = self._clock.monotonic_ms()
        leaked = self._rate * (now_ms - self._leaked_ms) / 1000
        self._leaked_ms = now_ms
        self._rate = max(self._bytes_per_s(), 1)
        self._excess_bytes = max(self._excess_bytes - leaked, -self._rate * WINDOW_MS / 1000)
