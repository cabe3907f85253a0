"""Client telemetry (KIP-714): which metrics each client instance pushes and how often, and which of its
requests are accepted.

A client instance is a running client. It is known by an id that it gets with its first request, and requests
its subscriptions once for each push interval. The state of an instance that sends nothing for three intervals
expires. With ``MAX_INSTANCES`` instances the one that was silent for the longest time is forgotten; a
forgotten client is known again with its next request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from ruslo.model.client_match import ClientMatch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, uuid_to_text

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
MAX_INSTANCES: Final = 16_384
MIN_EXPIRY_MS: Final = 60_000
EXPIRY_INTERVALS: Final = 3
_SWEEP_INTERVAL_MS: Final = 10_000
_NEVER_MS: Final = -(1 << 62)
_RETRIED_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors after which a client requests its subscriptions before the next interval."""


class Subscription(NamedTuple):
    """A client metrics resource."""

    metrics: tuple[str, ...]
    """Prefixes of metric names; ``*`` means all."""
    interval_ms: int
    match: ClientMatch


@dataclass(slots=True, eq=False)
class ClientInstance:
    id: Uuid
    subscription_id: int
    version: int
    """The version of the subscriptions that these fields are from."""
    metrics: tuple[str, ...]
    interval_ms: int
    last_error: ErrorCode = ErrorCode.NONE
    terminating: bool = False
    last_get_ms: int = _NEVER_MS
    last_push_ms: int = _NEVER_MS
    expires_ms: int = _NEVER_MS

    def is_subscribed(self, metric: str) -> bool:
        return ALL_METRICS in self.metrics or metric.startswith(self.metrics)


class ClientInstances:
    def __init__(self, on_removed: Callable[[Uuid], None], max_instances: int = MAX_INSTANCES) -> None:
        """``on_removed`` is called with the id of each instance whose state is dropped."""
        self._on_removed = on_removed
        self._max_instances = max_instances
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        """In the order of their last requests."""
        self._next_sweep_ms = _NEVER_MS
        self.unknown_subscriptions = 0
        """Pushes with an unknown subscription id."""

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: Uuid) -> bool:
        return instance_id in self._instances

    def subscribe(self, name: str, subscription: Subscription | None) -> None:
        """Add or replace a subscription; None removes it. Clients learn it with their next request."""
        if subscription is not None:
            self._subscriptions[name] = subscription
        elif self._subscriptions.pop(name, None) is None:
            return
        self._version += 1

    def get(self, instance_id: Uuid, attributes: Mapping[str, str], now_ms: int) -> ClientInstance:
        """Return the subscriptions of a client; raises KafkaError if it requests them too early."""
        instance = self._instance(instance_id, attributes, now_ms)
        last_ms = max(instance.last_get_ms, instance.last_push_ms)
        if now_ms - last_ms >= instance.interval_ms:
            instance.last_get_ms = now_ms
        elif instance.last_error not in _RETRIED_AT_ONCE:
            raise _too_early(instance)
        instance.last_error = ErrorCode.NONE
        return instance

    def admit_push(
        self,
        instance_id: Uuid,
        attributes: Mapping[str, str],
        now_ms: int,
        *,
        subscription_id: int,
        terminating: bool,
        has_known_compression: bool,
        size: int,
        max_bytes: int,
    ) -> ClientInstance:
        """Return the client whose push may be exported; raises KafkaError for any other push."""
        instance = self._instance(instance_id, attributes, now_ms)
        try:
            self._check_push(instance, now_ms, subscription_id, terminating)
            if not has_known_compression:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "The compression type of the metrics is unknown"
                )
            if size > max_bytes:
                raise KafkaError(
                    ErrorCode.TELEMETRY_TOO_LARGE,
                    f"The metrics have {size} bytes; the limit is {max_bytes} (telemetry.max.bytes)",
                )
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = terminating
        instance.last_error = ErrorCode.NONE
        return instance

    def expire(self, now_ms: int) -> None:
        """Drop the instances that have been silent for too long."""
        for instance in [each for each in self._instances.values() if each.expires_ms <= now_ms]:
            self._remove(instance.id)
        self._next_sweep_ms = now_ms + _SWEEP_INTERVAL_MS

    def _check_push(
        self, instance: ClientInstance, now_ms: int, subscription_id: int, terminating: bool
    ) -> None:
        if instance.terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Client instance {uuid_to_text(instance.id)} has already sent its last push",
            )
        # The first push after the subscriptions comes at a random time, so that clients do not push together.
        is_first = instance.last_get_ms > instance.last_push_ms
        if is_first or now_ms - instance.last_push_ms >= instance.interval_ms:
            instance.last_push_ms = now_ms
        elif not terminating:
            raise _too_early(instance)
        if subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                f"The subscriptions of client instance {uuid_to_text(instance.id)} have changed",
            )

    def _instance(self, instance_id: Uuid, attributes: Mapping[str, str], now_ms: int) -> ClientInstance:
        if now_ms >= self._next_sweep_ms:
            self.expire(now_ms)
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            if instance is None and len(self._instances) >= self._max_instances:
                self._remove(next(iter(self._instances)))
            instance = self._instances[instance_id] = self._new_instance(instance_id, attributes)
        instance.expires_ms = now_ms + max(MIN_EXPIRY_MS, EXPIRY_INTERVALS * instance.interval_ms)
        self._instances.move_to_end(instance_id)
        return instance

    def _new_instance(self, instance_id: Uuid, attributes: Mapping[str, str]) -> ClientInstance:
        matching = list(self._matching(attributes))
        metrics = {metric for each in matching for metric in each.metrics}
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        interval_ms = min((each.interval_ms for each in matching), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        subscription_id = subscription_id_of(metrics, interval_ms, instance_id)
        return ClientInstance(
            instance_id, subscription_id, self._version, tuple(sorted(metrics)), interval_ms
        )

    def _matching(self, attributes: Mapping[str, str]) -> Iterator[Subscription]:
        return (each for each in self._subscriptions.values() if each.match.matches(attributes))

    def _remove(self, instance_id: Uuid) -> None:
        del self._instances[instance_id]
        self._on_removed(instance_id)


def subscription_id_of(metrics: Iterable[str], interval_ms: int, instance_id: Uuid) -> int:
    """A checksum of what the client is subscribed to, mixed with its id; a signed int32."""
    checksum: int = crc32c(f"[{', '.join(sorted(metrics))}]{interval_ms}".encode())
    words = (int.from_bytes(instance_id[at : at + 4], "big") for at in range(0, 16, 4))
    for word in words:
        checksum ^= word
    return checksum - (1 << 32) if checksum >> 31 else checksum


def _too_early(instance: ClientInstance) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"Client instance {uuid_to_text(instance.id)} sent a request before its push interval of "
        f"{instance.interval_ms} ms was over",
    )
