"""Looks at the cluster every other second and makes rates of what it sees, whichever brokers it has.

While nobody looks at the console it looks rarely, and it never spends more than a small share of the time on
looking: the larger the cluster, the longer the pauses.
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
from ruslo.console.problems import reason
from ruslo.console.request_times import RequestTimes
from ruslo.console.snapshot import Snapshot, take_snapshot
from ruslo.model.errors import KafkaError, ProtocolError

_EVERY_S = 2.0
_UNWATCHED_EVERY_S = 20.0
_WATCHED_FOR_S = 30.0
_WORK_SHARE = 20
"""One part of work, so many of pause."""
_RATE_OVER_S = 1.0
"""Two looks may follow each other at once, for a page and for the loop: no rate is measured over that."""
_SIZES_EVERY = 3
_SAMPLES = 300
_TOPIC_SAMPLES = 150
_SNAPSHOT_WITHIN_S = 10.0

_log = logging.getLogger(__name__)


class Sample(NamedTuple):
    time_s: float
    records_per_s: float
    bytes_per_s: float | None
    """None until sizes were seen twice."""
    latency_ms: float | None
    """A request that costs nothing, there and back, of the slowest broker."""
    produce_ms: float | None = None
    """The mean of Produce requests, where brokers tell it."""


class TopicSample(NamedTuple):
    time_s: float
    records_per_s: float


class Sampler:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._request_times = RequestTimes(admin)
        self.last: Snapshot | None = None
        self._measured_from: Snapshot | None = None
        """The snapshot of the last sample, from which the next one counts."""
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self.topic_rates: Mapping[str, float] = {}
        self._topic_samples: dict[str, deque[TopicSample]] = {}
        self._taken = 0
        self._failure: KafkaError | ProtocolError | TimeoutError | None = None
        self._failed_s = 0.0
        self._sizes_at: tuple[float, int] | None = None
        self._bytes_per_s: float | None = None
        self._watched_s = time.monotonic()
        self._one_at_a_time = asyncio.Lock()
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        """Of the next look; each has its own, so that listeners share no lock that one of them could keep."""

    # -- for pages

    @property
    def problem(self) -> str | None:
        """Why the cluster could not be looked at the last time; None when it could."""
        return None if self._failure is None else reason(self._failure)

    def watch(self) -> None:
        """Somebody looks: so look often."""
        idle = time.monotonic() - self._watched_s > _WATCHED_FOR_S
        self._watched_s = time.monotonic()
        if idle:
            self._wake.set()

    async def fresh(self, max_age_s: float = _EVERY_S) -> Snapshot:
        """The last snapshot if it is young enough, else a new one; raises what the cluster raises."""
        self.watch()
        if self.last is None or time.monotonic() - self.last.at_s > max_age_s or self._failure is not None:
            await self._look(max_age_s)
        assert self.last is not None, "a look that raises nothing leaves a snapshot"
        return self.last

    def topic_samples(self, name: str) -> list[TopicSample]:
        return list(self._topic_samples.get(name, ()))

    async def news(self) -> AsyncIterator[None]:
        """Goes on whenever something was seen, or could not be."""
        async for _ in self.unhurried_news():
            self.watch()
            yield

    async def unhurried_news(self) -> AsyncIterator[None]:
        """As ``news``, for listeners who are no reason to look often."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), _WATCHED_FOR_S / 2)
            yield

    # -- the loop

    async def run(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self._look(0)
            except (KafkaError, ProtocolError, TimeoutError) as error:
                _log.debug("the cluster cannot be looked at: %s", error)
            took = time.monotonic() - started
            watched = time.monotonic() - self._watched_s < _WATCHED_FOR_S
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    self._wake.wait(), max(_EVERY_S if watched else _UNWATCHED_EVERY_S, took * _WORK_SHARE)
                )

    async def _look(self, max_age_s: float) -> None:
        async with self._one_at_a_time:
            before = self.last
            if before is not None and self._failure is None and time.monotonic() - before.at_s < max_age_s:
                return  # somebody else has just looked
            if self._failure is not None and time.monotonic() - self._failed_s < max_age_s:
                raise self._failure.with_traceback(None)  # and seen nothing: no page waits for that twice
            try:
                async with asyncio.timeout(_SNAPSHOT_WITHIN_S):
                    now = await take_snapshot(self._admin, before, with_sizes=self._taken % _SIZES_EVERY == 0)
                    is_due = self._is_due(now)
                    produce_ms = await self._request_times.look(now.nodes) if is_due else None
            except (KafkaError, ProtocolError, TimeoutError) as error:
                self._failure, self._failed_s = error, time.monotonic()
                self._tell()
                raise
            self._failure = None
            self.last = now
            if is_due:
                self._note(now, produce_ms)
            self._taken += 1
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _is_due(self, now: Snapshot) -> bool:
        before = self._measured_from
        return before is None or now.at_s - before.at_s >= _RATE_OVER_S

    def _note(self, now: Snapshot, produce_ms: float | None = None) -> None:
        before, self._measured_from = self._measured_from, now
        if before is None:
            return
        elapsed_s = max(now.at_s - before.at_s, 0.001)
        rates: dict[str, float] = {}
        for place, end in now.ends.items():
            if now.topics[place.topic].internal:
                continue  # what the cluster writes for itself is not what people came to see
            # A topic that was deleted and made again begins anew; a new one was empty before.
            grown = max(0, end - before.ends.get(place, end if place.topic in before.topics else 0))
            rates[place.topic] = rates.get(place.topic, 0.0) + grown / elapsed_s
        self.topic_rates = rates
        if now.directories is not before.directories:
            self._note_sizes(now)
        latency = max(now.round_trips_ms.values(), default=None)
        clock_s = time.time()
        self.samples.append(Sample(clock_s, sum(rates.values()), self._bytes_per_s, latency, produce_ms))
        self._topic_samples = {
            name: samples for name, samples in self._topic_samples.items() if name in now.topics
        }
        for name, value in rates.items():
            # Topics that were never seen to move have no history worth its memory.
            if value > 0 or name in self._topic_samples:
                samples = self._topic_samples.setdefault(name, deque(maxlen=_TOPIC_SAMPLES))
                samples.append(TopicSample(clock_s, value))

    def _note_sizes(self, now: Snapshot) -> None:
        total = sum(now.sizes.values())
        if self._sizes_at is not None:
            # Retention takes away while producers add: what shrinks says nothing about what came.
            elapsed_s = max(now.at_s - self._sizes_at[0], 0.001)
            self._bytes_per_s = max(0.0, (total - self._sizes_at[1]) / elapsed_s)
        self._sizes_at = (now.at_s, total)
