"""Client quotas (KIP-13, KIP-124, KIP-599): how much clients use, and how long they must wait.

A quota belongs to a user, to a client id, to both, or to a default of each. The most specific one applies:

==  ============  ============  ===================================
    user          client id     shared by
==  ============  ============  ===================================
1   its name      its name      the clients with both
2   its name      default       the clients with both
3   its name                    the clients of the user
4   default       its name      the clients with both
5   default       default       the clients with both
6   default                     the clients of the user
7                 its name      the clients with the client id
8                 default       the clients with the client id
==  ============  ============  ===================================

Clients may use the quota of several windows at once (``quota.window.num``, ``quota.window.size.seconds``). A
client that exceeds that must wait as long as it takes until all that its clients used is within the quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Final, NamedTuple, TypeAlias

from ruslo.model.hosts import canonical_host

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name, sorted by type; the name None stands for the default."""


class Windows(NamedTuple):
    number: int = 11
    size_ms: int = 1000


class Meter:
    """The usage of the clients that share a quota, and its bound.

    It is a bucket that drains at the rate of the quota and has room for all windows but the newest: Kafka's
    sampled rates admit the same burst. They would exceed the quota of many clients, though: each client waits
    for the excess that it finds, so the clients wait at the same time and not one after the other.
    """

    __slots__ = ("_last_ms", "_level", "_max_debt_s", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, max_debt_s: float = inf) -> None:
        """``max_debt_s``: usage beyond what takes so long to drain is forgotten."""
        self._windows = windows
        self._level = 0.0
        self._last_ms = 0
        self._max_debt_s = max_debt_s
        self.bound = bound
        """The quota, per second."""

    def throttle_ms(self, amount: float, now_ms: int) -> int:
        """Record an amount; returns how long the client must wait, 0 within its quota."""
        self._drain(now_ms)
        self._level = min(self._level + amount, self._burst + self._max_debt_s * self.bound)
        return self._drained_ms(self._burst)

    def admit_ms(self, amount: float, now_ms: int) -> int:
        """Record an amount that is within the quota and return 0, else return how long until it is.

        An amount that is larger than a burst is admitted once nothing is owed, so its client is not held back
        for ever.
        """
        self._drain(now_ms)
        waits_ms = self._drained_ms(max(self._burst - amount, 0.0))
        if not waits_ms:
            self._level += amount
        return waits_ms

    def unrecord(self, amount: float) -> None:
        """What was recorded was not used after all."""
        self._level = max(self._level - amount, 0.0)

    @property
    def _burst(self) -> float:
        return (self._windows.number - 1) * self._windows.size_ms / 1000 * self.bound

    def _drain(self, now_ms: int) -> None:
        drained = (now_ms - self._last_ms) / 1000 * self.bound
        self._level, self._last_ms = max(self._level - drained, 0.0), now_ms

    def _drained_ms(self, level: float) -> int:
        """How long until the bucket is at this level."""
        return ceil(max(self._level - level, 0.0) / self.bound * 1000)


class TokenBucket:
    """A quota of partition changes (KIP-599): tokens are earned over time, up to those of all windows."""

    __slots__ = ("_last_ms", "_tokens", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        self._windows = windows
        self.bound = bound
        self._last_ms = now_ms
        self._tokens = self._burst

    @property
    def _burst(self) -> float:
        return self._windows.number * self._windows.size_ms / 1000 * self.bound

    def wait_ms(self, now_ms: int) -> int:
        """How long until a change is allowed; 0: now."""
        earned = (now_ms - self._last_ms) / 1000 * self.bound
        self._tokens, self._last_ms = min(self._tokens + earned, self._burst), now_ms
        return 0 if self._tokens >= 0 else round(-self._tokens / self.bound * 1000)

    def take(self, count: float, now_ms: int) -> None:
        self.wait_ms(now_ms)
        self._tokens -= count


class ClientMeters(NamedTuple):
    """The meters of one client; None where it has no quota."""

    produce: Meter | None
    fetch: Meter | None
    request: Meter | None


NO_METERS: Final = ClientMeters(None, None, None)
_MAX_METERS: Final = 100_000
"""Beyond this many clients with a quota of their own all meters and buckets start again."""


class ClientQuotas:
    """The quotas of users and client ids, with the usage of each."""

    def __init__(self, windows: Windows, mutation_windows: Windows) -> None:
        """``mutation_windows``: those of ``controller_mutation_rate`` (``controller.quota.window.num`` …)."""
        self.windows = windows
        self._mutation_windows = mutation_windows
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._meters: dict[tuple[str, str | None, str | None], Meter] = {}
        """By quota, and by the user and client id that its clients share."""
        self._buckets: dict[tuple[str | None, str | None], TokenBucket] = {}
        self._rates_of_ips: dict[str | None, float] = {}
        self.active = False
        """Whether there is any quota."""
        self.version = 0
        """Incremented with every change: meters that were looked up before are not current."""

    def replace(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._quotas = {entity: dict(values) for entity, values in quotas.items() if entity[0][0] != IP}
        self._rates_of_ips = {
            None if (ip := entity[0][1]) is None else canonical_host(ip): values[CONNECTION]
            for entity, values in quotas.items()
            if entity[0][0] == IP and CONNECTION in values
        }
        self.active = bool(self._quotas)
        self.version += 1

    def meters(self, user: str, client_id: str) -> ClientMeters:
        if not self.active:
            return NO_METERS
        return ClientMeters(
            self._meter(PRODUCE, user, client_id),
            self._meter(FETCH, user, client_id),
            self._meter(REQUEST, user, client_id),
        )

    def mutations(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        """The bucket of partition changes of a client; None without a quota."""
        found = self.bound(MUTATION, user, client_id)
        if found is None:
            return None
        bound, *shared = found
        key = (shared[0], shared[1])
        bucket = self._buckets.get(key)
        if bucket is None or bucket.bound != bound:
            if len(self._buckets) >= _MAX_METERS:
                self._buckets.clear()
            bucket = self._buckets[key] = TokenBucket(self._mutation_windows, bound, now_ms)
        return bucket

    def connection_rate(self, ip: str) -> float | None:
        """New connections per second from an address; None without a quota."""
        return self._rates_of_ips.get(canonical_host(ip), self._rates_of_ips.get(None))

    def bound(self, key: str, user: str, client_id: str) -> tuple[float, str | None, str | None] | None:
        """The quota that applies, and the user and client id that its clients share; None without one."""
        for entity, shares_user, shares_client in _precedence(user, client_id):
            value = self._quotas.get(entity, {}).get(key)
            if value is not None:
                return value, user if shares_user else None, client_id if shares_client else None
        return None

    def _meter(self, key: str, user: str, client_id: str) -> Meter | None:
        found = self.bound(key, user, client_id)
        if found is None:
            return None
        bound, shared_user, shared_client = found
        if len(self._meters) >= _MAX_METERS:
            self._meters.clear()
        # Waits of request quotas are limited, so those of clients that go on would never end.
        max_debt_s = self.windows.number * self.windows.size_ms / 1000 if key == REQUEST else inf
        meter = self._meters.setdefault(
            (key, shared_user, shared_client), Meter(self.windows, bound, max_debt_s)
        )
        meter.bound = bound
        return meter


def _precedence(user: str, client_id: str) -> tuple[tuple[Entity, bool, bool], ...]:
    """The entities whose quota may apply, the most specific first.

    With each: whether its clients share the user, and whether they share the client id.
    """
    return (
        (((CLIENT_ID, client_id), (USER, user)), True, True),
        (((CLIENT_ID, None), (USER, user)), True, True),
        (((USER, user),), True, False),
        (((CLIENT_ID, client_id), (USER, None)), True, True),
        (((CLIENT_ID, None), (USER, None)), True, True),
        (((USER, None),), True, False),
        (((CLIENT_ID, client_id),), False, True),
        (((CLIENT_ID, None),), False, True),
    )
