"""Limits how fast connections are created: of the broker, of a listener, and of an address (KIP-612).

A limit allows a burst, as large as the rate over ten windows of a second, as Kafka's measurement does. Beyond
it the connections of a broker or a listener are served later, one after the other. An address that exceeds
its own limit gets its connections closed, after a short time, so a client that reconnects in a loop slows
down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

BURST_S = 10.0
MAX_ADDRESSES = 10_000


class RateLimit:
    """Events at a steady rate, with bursts."""

    __slots__ = ("_next_s", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._next_s = 0.0
        """When the events so far would have happened at exactly this rate."""

    def delay_s(self, now_s: float) -> float:
        """Count an event; returns how much later it may happen. 0: now."""
        self._next_s = max(self._next_s, now_s) + 1 / self.rate
        return max(self._next_s - now_s - BURST_S, 0.0)

    def is_exceeded(self, now_s: float) -> bool:
        """Count an event unless it exceeds the limit."""
        if max(self._next_s, now_s) + 1 / self.rate - now_s > BURST_S:
            return True
        self._next_s = max(self._next_s, now_s) + 1 / self.rate
        return False


@dataclass(slots=True)
class ConnectionRates:
    rate_of_ip: Callable[[str], float | None]
    """``connection_creation_rate`` of an address; None: no quota."""
    _broker: RateLimit | None = None
    _listeners: dict[str, RateLimit] = field(default_factory=dict)
    _addresses: dict[str, RateLimit] = field(default_factory=dict)

    def limit(self, broker: float | None, listeners: dict[str, float]) -> None:
        """Set the limits of the broker, None for no limit, and of single listeners."""
        self._broker = _changed(self._broker, broker)
        self._listeners = {
            name: limit
            for name, rate in listeners.items()
            if (limit := _changed(self._listeners.get(name), rate)) is not None
        }

    def delay_s(self, listener_name: str, now_s: float, *, protected: bool) -> float:
        """How much later a new connection is served. ``protected``: brokers are not held back by clients."""
        delay_s = 0.0
        if self._broker is not None and not protected:
            delay_s = self._broker.delay_s(now_s)
        listener = self._listeners.get(listener_name)
        return delay_s if listener is None else max(delay_s, listener.delay_s(now_s))

    def exceeds_ip_quota(self, host: str, now_s: float) -> bool:
        rate = self.rate_of_ip(host)
        if rate is None:
            return False
        limit = _changed(self._addresses.get(host), rate)
        assert limit is not None
        if len(self._addresses) >= MAX_ADDRESSES and host not in self._addresses:
            self._addresses.clear()
        self._addresses[host] = limit
        return limit.is_exceeded(now_s)


def _changed(limit: RateLimit | None, rate: float | None) -> RateLimit | None:
    if rate is None:
        return None
    return limit if limit is not None and limit.rate == rate else RateLimit(rate)
