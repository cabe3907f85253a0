"""How fast throttled replicas may be copied, so that moving them leaves room for clients (KIP-73).

Which replicas are throttled is a topic's setting, how many bytes a second a broker's; both sides of a copy
have their own. Members of the in-sync set are never held back by their leader: they would drop out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ruslo.model.clock import Clock

WINDOW_MS = 1_000
"""An allowance that was not used within this time is lost; a debt is waited for."""
EVERY_REPLICA = "*"


def is_throttled(throttled: Sequence[str], partition: int, broker_id: int) -> bool:
    """``throttled``: the topic's list of "partition:broker", or "*"."""
    return bool(throttled) and (throttled[0] == EVERY_REPLICA or f"{partition}:{broker_id}" in throttled)


class ReplicationQuota:
    """A bucket of bytes that leaks at the allowed rate, so a new rate counts for the present debt too."""

    def __init__(self, bytes_per_s: Callable[[], int], clock: Clock) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._rate = max(bytes_per_s(), 1)
        self._debt_bytes = float("-inf")
        """Copied beyond the allowed rate; below 0: what may be copied at once, at most a window's worth."""
        self._leaked_ms = clock.monotonic_ms()

    def record(self, size: int) -> None:
        self._leak()
        self._debt_bytes += size

    def pause_ms(self) -> int:
        """How long to wait with the next bytes; 0: not at all."""
        self._leak()
        return max(0, int(self._debt_bytes * 1000 / self._rate))

    def _leak(self) -> None:
        now_ms = self._clock.monotonic_ms()
        leaked = self._rate * (now_ms - self._leaked_ms) / 1000
        self._leaked_ms = now_ms
        self._rate = max(self._bytes_per_s(), 1)
        self._debt_bytes = max(self._debt_bytes - leaked, -self._rate * WINDOW_MS / 1000)
