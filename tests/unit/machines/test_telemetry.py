"""Which client instance pushes what, and which of its requests are accepted, as in Kafka."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from ruslo.machines.telemetry import (
    DEFAULT_INTERVAL_MS,
    ClientInstance,
    ClientInstances,
    Subscription,
    subscription_id_of,
)
from ruslo.model.client_match import ClientMatch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
NOW = 1_000_000


def subscription(*metrics: str, interval_ms: int = 1000, match: tuple[str, ...] = ()) -> Subscription:
    return Subscription(metrics, interval_ms, ClientMatch(match))


class Bench:
    def __init__(self, max_instances: int = 100) -> None:
        self.removed: list[Uuid] = []
        self.instances = ClientInstances(self.removed.append, max_instances)
        self.instances.subscribe("all", subscription("*"))

    def get(self, instance_id: Uuid = A, at: int = NOW, client_id: str = "c") -> ClientInstance:
        return self.instances.get(instance_id, {"client_id": client_id}, at)

    def push(
        self,
        instance: ClientInstance,
        at: int = NOW,
        *,
        subscription_id: int | None = None,
        terminating: bool = False,
        has_known_compression: bool = True,
        size: int = 10,
    ) -> ErrorCode:
        """The error code of the push."""
        if subscription_id is None:
            subscription_id = instance.subscription_id
        try:
            self.instances.admit_push(
                instance.id,
                {"client_id": "c"},
                at,
                subscription_id=subscription_id,
                terminating=terminating,
                has_known_compression=has_known_compression,
                size=size,
                max_bytes=100,
            )
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


def get_error(bench: Bench, at: int) -> ErrorCode:
    with pytest.raises(KafkaError) as rejection:
        bench.get(at=at)
    return rejection.value.code


def test_metrics_and_interval_are_those_of_all_matching_subscriptions() -> None:
    bench = Bench()
    bench.instances.subscribe("all", None)
    assert (bench.get().metrics, bench.get(B).interval_ms) == ((), DEFAULT_INTERVAL_MS)
    bench.instances.subscribe("x", subscription("b.", "a.", interval_ms=5000))
    bench.instances.subscribe("y", subscription("a.", interval_ms=2000, match=("client_id=ord.*",)))
    bench.instances.subscribe("slow", subscription("c.", interval_ms=3_600_000))
    orders, rest = bench.get(client_id="orders"), bench.get(B, client_id="my-orders")
    assert (orders.metrics, orders.interval_ms) == (("a.", "b.", "c."), 2000)
    assert (rest.metrics, rest.interval_ms) == (("a.", "b.", "c."), 5000)
    assert orders.is_subscribed("a.count")
    assert not orders.is_subscribed("ab")
    bench.instances.subscribe("every", subscription("*"))
    assert bench.get(client_id="orders").metrics == ("*",)


def test_subscription_id_is_the_checksum_of_kafka() -> None:
    assert subscription_id_of(["*"], 1000, bytes(16)) & 0xFFFF_FFFF == crc32c(b"[*]1000")
    assert (
        subscription_id_of(["a"], 1, bytes(12) + b"\0\0\0\1") == subscription_id_of(["a"], 1, bytes(16)) ^ 1
    )
    assert {subscription_id_of([], each, A) >> 31 for each in range(50)} == {0, -1}


def test_requests_before_the_interval_is_over_are_throttled() -> None:
    bench = Bench()
    instance = bench.get()
    assert get_error(bench, NOW + 999) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert bench.push(instance, NOW + 1) is ErrorCode.NONE
    assert bench.push(instance, NOW + 900) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert get_error(bench, NOW + 1000) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert bench.push(instance, NOW + 1001) is ErrorCode.NONE
    assert bench.push(instance, NOW + 1100, terminating=True) is ErrorCode.NONE
    assert bench.push(instance, NOW + 9000) is ErrorCode.INVALID_REQUEST


def test_changed_subscriptions_are_requested_at_once() -> None:
    bench = Bench()
    instance = bench.get()
    assert bench.push(instance) is ErrorCode.NONE
    bench.instances.subscribe("all", subscription("other."))
    assert bench.push(instance, NOW + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert bench.instances.unknown_subscriptions == 1
    changed = bench.get(at=NOW + 2)
    assert changed.metrics == ("other.",)
    assert changed.subscription_id != instance.subscription_id
    assert get_error(bench, NOW + 3) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert bench.removed == []


def test_compression_and_size_are_checked() -> None:
    bench = Bench()
    instance = bench.get()
    assert bench.push(instance, has_known_compression=False) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert bench.get(at=NOW + 1) is instance
    assert bench.push(instance, NOW + 1000, size=101) is ErrorCode.TELEMETRY_TOO_LARGE
    assert bench.push(instance, NOW + 2000, size=100) is ErrorCode.NONE


def test_silent_clients_expire() -> None:
    bench = Bench()
    bench.get()
    bench.get(B, NOW + 59_000)
    bench.instances.expire(NOW + 60_000)
    assert bench.removed == [A]
    bench.get(C, NOW + 200_000)
    assert bench.removed == [A, B]
    bench.instances.subscribe("all", subscription("*", interval_ms=300_000))
    bench.get(C, NOW + 200_001)
    bench.instances.expire(NOW + 1_100_000)
    assert C in bench.instances


def test_the_most_silent_client_is_forgotten_when_there_are_too_many() -> None:
    bench = Bench(max_instances=2)
    bench.get(A)
    bench.get(B, NOW + 1)
    bench.get(A, NOW + 1000)
    bench.get(C, NOW + 1001)
    assert bench.removed == [B]
    assert len(bench.instances) == 2
