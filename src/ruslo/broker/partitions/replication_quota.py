"""How fast throttled replicas may be copied, so that moving them leaves room for clients (KIP-73).

Which replicas are throttled is a topic's setting, how many bytes a second a broker's; both sides of a copy
have their own. Members of the in-sync set are never held back by their leader: they would drop out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ruslo.model.clock import Clock

WINDOW_MS = 1_000
"""What was not used in so long is lost; what was borrowed is waited for."""
EVERY_REPLICA = "*"


def is_throttled(throttled: Sequence[str], partition: int, broker_id: int) -> bool:
    """``throttled``: the topic's list of "partition:broker", or "*"."""
    return bool(throttled) and (throttled[0] == EVERY_REPLICA or f"{partition}:{broker_id}" in throttled)


class ReplicationQuota:
    def __init__(self, bytes_per_s: Callable[[], int], clock: Clock) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._paid_until_ms = 0.0
        """At the allowed rate, what was copied so far takes until then."""

    def record(self, size: int) -> None:
        now_ms = self._clock.monotonic_ms()
        rate = max(self._bytes_per_s(), 1)
        self._paid_until_ms = max(self._paid_until_ms, now_ms - WINDOW_MS) + size * 1000 / rate

    def pause_ms(self) -> int:
        """How long to wait with the next bytes; 0: not at all."""
        return max(0, int(self._paid_until_ms - self._clock.monotonic_ms()))
