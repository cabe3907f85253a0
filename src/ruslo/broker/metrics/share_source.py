"""Families of the share-partitions that this broker leads, and of the sessions of their members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.broker.counters.share_counters import ACKNOWLEDGE_TYPES
from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, histogram_samples, labels_text, single
from ruslo.broker.metrics.traffic_source import MILLISECOND_NS
from ruslo.machines.share_partition.breaker import BreakerState

if TYPE_CHECKING:
    from ruslo.broker.share_partitions.manager import SharePartitionManager
    from ruslo.machines.share_partition.values import Locks


def share_families(shares: SharePartitionManager) -> Iterator[Family]:
    counters, sessions = shares.counters, shares.sessions
    yield single(catalog.SHARE_SESSIONS, len(sessions))
    yield single(catalog.SHARE_SESSION_PARTITIONS, sessions.partition_count)
    yield single(catalog.SHARE_SESSION_EVICTIONS, sessions.evictions)
    yield Family(
        catalog.RECORD_ACKNOWLEDGEMENTS,
        [
            Sample(labels_text({"acktype": name}), counters.acknowledged[value])
            for value, name in ACKNOWLEDGE_TYPES.items()
        ],
    )
    yield Family(
        catalog.SHARE_PARTITION_LOAD_TIME, histogram_samples(counters.load_times, {}, MILLISECOND_NS)
    )
    yield single(catalog.EXPIRED_SHARE_FETCHES, counters.expired_fetches)
    for metric, by_group in (
        (catalog.DEAD_LETTERS, counters.dead_letters),
        (catalog.DEAD_LETTER_REQUESTS, counters.dead_letter_requests),
        (catalog.LOST_DEAD_LETTERS, counters.lost_dead_letters),
    ):
        yield Family(
            metric, [Sample(labels_text({"group": group}), count) for group, count in by_group.items()]
        )
    rows = [
        (
            labels_text(
                {"group": led.key.group_id, "topic": led.partition.topic, "partition": led.key.partition}
            ),
            led.machine,
            led.lock_timeouts,
        )
        for led in shares
        if led.machine is not None
    ]
    paused = sum(machine.breaker_state is not BreakerState.CLOSED for _, machine, _ in rows)
    yield single(catalog.OPEN_BREAKERS, paused)
    yield Family(
        catalog.IN_FLIGHT_RECORDS, (Sample(labels, machine.in_flight) for labels, machine, _ in rows)
    )
    yield Family(
        catalog.IN_FLIGHT_BATCHES, (Sample(labels, machine.range_count) for labels, machine, _ in rows)
    )
    now_ms = shares.now_ms()
    locks = [(labels, machine.locks(), machine.settings.lock_duration_ms) for labels, machine, _ in rows]
    yield Family(catalog.LOCKED_RECORDS, (Sample(labels, held.records) for labels, held, _ in locks))
    yield Family(
        catalog.OLDEST_LOCK,
        (Sample(labels, _lock_age_s(held, duration_ms, now_ms)) for labels, held, duration_ms in locks),
    )
    yield Family(catalog.DELIVERIES_MAX, (Sample(labels, held.deliveries_max) for labels, held, _ in locks))
    yield Family(catalog.LOCK_TIMEOUTS, (Sample(labels, timeouts) for labels, _, timeouts in rows))


def _lock_age_s(held: Locks, duration_ms: int, now_ms: int) -> float:
    if held.first_deadline_ms is None:
        return 0
    return max(0, duration_ms - (held.first_deadline_ms - now_ms)) / 1000
