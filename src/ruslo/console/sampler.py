"""Samples the cluster every two seconds and computes rates from offsets, for any Kafka brokers.

Without visitors it samples rarely. It spends only a small share of the time on sampling: the larger the
cluster, the longer the pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.console.error_texts import error_text
from ruslo.console.produce_latency import ProduceLatency
from ruslo.console.snapshot import Snapshot, take_snapshot
from ruslo.model.errors import KafkaError, ProtocolError

_INTERVAL_S = 2.0
_IDLE_INTERVAL_S = 20.0
_VISIT_S = 30.0
"""How long a visit keeps the sampling interval short."""
_PAUSE_FACTOR = 20
"""The pause after a snapshot, as a multiple of its duration."""
_RATE_WINDOW_MIN_S = 1.0
"""Snapshots for a page and for the loop may follow each other at once: that is too short for a rate."""
_SNAPSHOTS_PER_SIZES = 3
_SAMPLES_MAX = 300
_TOPIC_SAMPLES_MAX = 150
_SNAPSHOT_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


class Sample(NamedTuple):
    time_s: float
    records_per_s: float
    bytes_per_s: float | None
    """None until the sizes were sampled twice."""
    latency_ms: float | None
    """The round trip of a cheap request to the slowest broker."""
    produce_ms: float | None = None
    """The mean latency of Produce requests, if brokers report it."""


class TopicSample(NamedTuple):
    time_s: float
    records_per_s: float


class Sampler:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._produce_latency = ProduceLatency(admin)
        self.last: Snapshot | None = None
        self._measured_from: Snapshot | None = None
        """The snapshot of the last sample, which the next sample is compared with."""
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES_MAX)
        self.topic_rates: Mapping[str, float] = {}
        self._topic_samples: dict[str, deque[TopicSample]] = {}
        self._snapshots = 0
        self._failure: KafkaError | ProtocolError | TimeoutError | None = None
        self._failed_s = 0.0
        self._sizes_at: tuple[float, int] | None = None
        self._bytes_per_s: float | None = None
        self._visited_s = time.monotonic()
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._sampled = asyncio.Event()
        """Set by the next sample. Every sample has its own event, so listeners do not share a lock."""

    # -- for pages

    @property
    def problem(self) -> str | None:
        """The error of the last snapshot, or None."""
        return None if self._failure is None else error_text(self._failure)

    def note_visit(self) -> None:
        """A page is open: sample often."""
        idle = time.monotonic() - self._visited_s > _VISIT_S
        self._visited_s = time.monotonic()
        if idle:
            self._wake.set()

    async def fresh(self, max_age_s: float = _INTERVAL_S) -> Snapshot:
        """The last snapshot if it is recent enough, else a new one; raises the cluster's errors."""
        self.note_visit()
        if self.last is None or time.monotonic() - self.last.at_s > max_age_s or self._failure is not None:
            await self._refresh(max_age_s)
        assert self.last is not None, "a refresh that does not raise sets the snapshot"
        return self.last

    def topic_samples(self, name: str) -> list[TopicSample]:
        return list(self._topic_samples.get(name, ()))

    async def updates(self) -> AsyncIterator[None]:
        """Yields after every sample and every failed one."""
        async for _ in self.background_updates():
            self.note_visit()
            yield

    async def background_updates(self) -> AsyncIterator[None]:
        """As ``updates``, for listeners that do not count as visits."""
        while True:
            await _wait(self._sampled, _VISIT_S / 2)
            yield

    # -- the loop

    async def run(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self._refresh(0)
            except (KafkaError, ProtocolError, TimeoutError) as error:
                _log.debug("cannot sample the cluster: %s", error)
            duration_s = time.monotonic() - started
            visited = time.monotonic() - self._visited_s < _VISIT_S
            self._wake.clear()
            interval_s = _INTERVAL_S if visited else _IDLE_INTERVAL_S
            await _wait(self._wake, max(interval_s, duration_s * _PAUSE_FACTOR))

    async def _refresh(self, max_age_s: float) -> None:
        async with self._lock:
            before = self.last
            if before is not None and self._failure is None and time.monotonic() - before.at_s < max_age_s:
                return  # another caller has just refreshed it
            if self._failure is not None and time.monotonic() - self._failed_s < max_age_s:
                raise self._failure.with_traceback(None)  # another caller has just failed: do not wait again
            try:
                async with asyncio.timeout(_SNAPSHOT_TIMEOUT_S):
                    now = await take_snapshot(
                        self._admin, before, with_sizes=self._snapshots % _SNAPSHOTS_PER_SIZES == 0
                    )
                    is_due = self._is_due(now)
                    produce_ms = await self._produce_latency.measure(now.nodes) if is_due else None
            except (KafkaError, ProtocolError, TimeoutError) as error:
                self._failure, self._failed_s = error, time.monotonic()
                self._notify()
                raise
            self._failure = None
            self.last = now
            if is_due:
                self._add_sample(now, produce_ms)
            self._snapshots += 1
        self._notify()

    def _notify(self) -> None:
        sampled, self._sampled = self._sampled, asyncio.Event()
        sampled.set()

    def _is_due(self, now: Snapshot) -> bool:
        before = self._measured_from
        return before is None or now.at_s - before.at_s >= _RATE_WINDOW_MIN_S

    def _add_sample(self, now: Snapshot, produce_ms: float | None = None) -> None:
        before, self._measured_from = self._measured_from, now
        if before is None:
            return
        elapsed_s = max(now.at_s - before.at_s, 0.001)
        rates: dict[str, float] = {}
        for tp, end in now.ends.items():
            if now.topics[tp.topic].internal:
                continue
            # A recreated topic starts at 0 again; a new topic was empty before.
            produced = max(0, end - before.ends.get(tp, end if tp.topic in before.topics else 0))
            rates[tp.topic] = rates.get(tp.topic, 0.0) + produced / elapsed_s
        self.topic_rates = rates
        if now.directories is not before.directories:
            self._add_sizes(now)
        latency = max(now.round_trips_ms.values(), default=None)
        clock_s = time.time()
        self.samples.append(Sample(clock_s, sum(rates.values()), self._bytes_per_s, latency, produce_ms))
        self._topic_samples = {
            name: samples for name, samples in self._topic_samples.items() if name in now.topics
        }
        for name, value in rates.items():
            # Idle topics need no history.
            if value > 0 or name in self._topic_samples:
                samples = self._topic_samples.setdefault(name, deque(maxlen=_TOPIC_SAMPLES_MAX))
                samples.append(TopicSample(clock_s, value))

    def _add_sizes(self, now: Snapshot) -> None:
        total = sum(now.sizes.values())
        if self._sizes_at is not None:
            # Retention may delete more than producers add; then the rate is unknown and shown as 0.
            elapsed_s = max(now.at_s - self._sizes_at[0], 0.001)
            self._bytes_per_s = max(0.0, (total - self._sizes_at[1]) / elapsed_s)
        self._sizes_at = (now.at_s, total)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """``asyncio.wait_for`` would drop a cancellation that comes at the same time as the event."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
