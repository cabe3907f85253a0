"""AsyncShareConsumer: the share consumer for asyncio."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Generic, Self, TypeAlias

from ruslo.client.errors import ClientUnusable, UndecodableRecord
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.share_settings import share_consumer_settings
from ruslo.client.share.acknowledgements import Acknowledgements
from ruslo.client.share.acquired import Acquired, AcquiredRecord, decode
from ruslo.client.share.broker_session import Outcomes
from ruslo.client.share.fetcher import ShareFetcher
from ruslo.client.share.in_flight import Delivery, InFlight
from ruslo.client.share.session import FetchLimits
from ruslo.client.share.share_client import ShareClient
from ruslo.client.share.share_record import Deserializer, ShareRecord, ShareRecordReader
from ruslo.client.type_variables import ConsumedK, ConsumedV
from ruslo.client.wire.cluster import Cluster
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ConfigError, KafkaError
from ruslo.model.topics import TopicPartition

CommitResult: TypeAlias = dict[TopicPartition, KafkaError | None]
"""Whether the acknowledgements of each partition were accepted; if not, their records are delivered again."""

_log = logging.getLogger("ruslo.client")
_POLL_S = 1.0
_SEND_INTERVAL_S = 1.0
"""Acknowledgements wait for the next fetch, but no longer than this: locks expire."""


class AsyncShareConsumer(Generic[ConsumedK, ConsumedV]):
    """``async for record in consumer`` reads forever; ``poll`` and ``batches`` return lists.

    - Consumers of a share group share partitions: each record goes to one of them, and again to any of them
      if it is not acknowledged before its lock expires.
    - Implicit acknowledgement, the default: asking for more accepts the records that were delivered.
      Explicit: the application calls ``accept``, ``release``, ``reject`` or ``renew`` of each record.
    - ``commit`` sends acknowledgements and returns their results; otherwise the next fetch carries them, and
      ``on_acknowledged`` gets the results within a later call.
    - A consumer belongs to one task at a time.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[ConsumedK] | None = None,
        value_deserializer: Deserializer[ConsumedV] | None = None,
        on_acknowledged: Callable[[CommitResult], None] | None = None,
    ) -> None:
        settings = share_consumer_settings(config)
        self._settings = settings
        self._cluster = Cluster(
            settings.bootstrap_servers,
            settings=settings.channel,
            api_timeout_ms=settings.api_timeout_ms,
            retry_backoff_ms=max(1, settings.retry_backoff_ms),
        )
        self._client = ShareClient(
            self._cluster,
            settings.group_id,
            (),
            rack_id=settings.rack_id,
            request_timeout_ms=settings.channel.request_timeout_ms,
        )
        limits = FetchLimits(
            settings.fetch_max_wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.max_poll_records,
            settings.acquire_mode,
        )
        self._fetcher = ShareFetcher(self._client, limits, self._on_outcomes)
        self._in_flight = InFlight(explicit=settings.explicit)
        self._reader = ShareRecordReader(key_deserializer, value_deserializer)
        self._buffer: deque[tuple[Acquired, AcquiredRecord]] = deque()
        self._on_acknowledged = on_acknowledged
        self._unreported: list[CommitResult] = []
        self._subscription: frozenset[str] = frozenset()
        self._joined = False
        self._membership_turn = asyncio.Lock()
        """A member that leaves must have left before it joins again."""
        self._closed = False
        self._last_poll_s = self._last_send_s = time.monotonic()
        self._polling = False
        self._watch: asyncio.Task[None] | None = None

    # -- subscription

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group with these topics, or replace them."""
        self._check_open()
        if isinstance(topics, str):
            raise ConfigError(f"subscribe needs a list of topics: write [{topics!r}]")
        if not topics:
            await self.unsubscribe()
            return
        self._subscription = frozenset(topics)
        async with self._membership_turn:
            self._client.subscribe(topics)
            self._join()

    async def unsubscribe(self) -> None:
        """Leave the group. Records without an acknowledgement are released."""
        self._check_open()
        self._subscription = frozenset()
        await self._end_membership()

    def subscription(self) -> frozenset[str]:
        return self._subscription

    # -- records

    async def poll(self, timeout_s: float = _POLL_S) -> list[ShareRecord[ConsumedK, ConsumedV]]:
        """Up to ``max.poll.records`` records; empty after the timeout."""
        return await self._poll(timeout_s, self._settings.max_poll_records)

    async def batches(
        self, max_wait_s: float = _POLL_S
    ) -> AsyncIterator[list[ShareRecord[ConsumedK, ConsumedV]]]:
        """Lists of one to ``max.poll.records`` records, forever."""
        while not self._closed:
            records = await self.poll(max_wait_s)
            if records:
                yield records

    def __aiter__(self) -> AsyncIterator[ShareRecord[ConsumedK, ConsumedV]]:
        return self

    async def __anext__(self) -> ShareRecord[ConsumedK, ConsumedV]:
        while not self._closed:
            record = self.next_buffered() or await self.poll_one(_POLL_S)
            if record is not None:
                return record
        raise StopAsyncIteration

    async def poll_one(self, timeout_s: float) -> ShareRecord[ConsumedK, ConsumedV] | None:
        """The next record; None after the timeout."""
        records = await self._poll(timeout_s, 1)
        return records[0] if records else None

    def next_buffered(self) -> ShareRecord[ConsumedK, ConsumedV] | None:
        """The next record if it needs no request; else None."""
        # ShareConsumer calls this in the application's thread, while the watch may end the membership.
        with self._in_flight.lock:
            if self._closed or not self._buffer or self._unreported or self._send_is_due():
                return None
            self._in_flight.begin_poll()
            self._last_poll_s = time.monotonic()
            records = self._deliver(1)
        return records[0] if records else None

    async def _poll(self, timeout_s: float, limit: int) -> list[ShareRecord[ConsumedK, ConsumedV]]:
        self._check_open()
        if not self._subscription:
            raise ConfigError("the consumer has no subscription: call subscribe first")
        async with self._membership_turn:
            self._report()
            self._in_flight.begin_poll()
            self._join()
        self._last_poll_s = time.monotonic()
        deadline = self._last_poll_s + timeout_s
        self._polling = True
        try:
            while not (records := self._deliver(limit)):
                left_s = max(0.0, deadline - time.monotonic())
                acquired = await self._fetcher.acquire(left_s, self._take_decided)
                for each in acquired:
                    self._add(each)
                if not acquired:
                    break
            if records and self._send_is_due():
                self._fetcher.acknowledge(self._take_decided())
        finally:
            self._polling = False
            self._last_poll_s = time.monotonic()
        return records

    def _add(self, acquired: Acquired) -> None:
        decoded = decode(acquired)
        self._in_flight.add_decided(acquired, decoded.problems)
        self._buffer.extend((acquired, record) for record in decoded.records)
        if decoded.damage is not None:
            _log.error("rejected records of %s: %s", acquired.partition.topic_partition, decoded.damage)

    def _deliver(self, limit: int) -> list[ShareRecord[ConsumedK, ConsumedV]]:
        records: list[ShareRecord[ConsumedK, ConsumedV]] = []
        now_ms = time.monotonic_ns() // 1_000_000
        while self._buffer and len(records) < limit:
            acquired, found = self._buffer[0]
            if now_ms >= acquired.expires_at_ms:
                # The broker has given the record to another consumer, or will.
                self._buffer.popleft()
                continue
            delivery = Delivery(acquired.partition, acquired.node_id, found.record.offset)
            try:
                record = self._reader.read(delivery, self._in_flight, found)
            except UndecodableRecord:
                # Earlier records are delivered first.
                if records:
                    break
                self._buffer.popleft()
                self._in_flight.add_decided(acquired, {found.record.offset: AcknowledgeType.RELEASE})
                raise
            self._buffer.popleft()
            self._in_flight.deliver(delivery)
            records.append(record)
        return records

    # -- acknowledgements

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long delivered records stay locked; None before the first fetch."""
        return self._client.lock_timeout_ms

    async def commit(self) -> CommitResult:
        """Send acknowledgements, and wait for their results. With implicit acknowledgement, delivered records
        are accepted."""
        self._begin_commit()
        await self._fetcher.settle()
        outcomes = await self._client.acknowledge(self._take_decided())
        self._note_outcomes(outcomes)
        self._report()
        return _by_topic_partition(outcomes)

    async def commit_async(self) -> None:
        """Send acknowledgements without waiting; ``on_acknowledged`` gets their results."""
        self._begin_commit()
        self._fetcher.acknowledge(self._take_decided())

    def _begin_commit(self) -> None:
        self._check_open()
        if not self._in_flight.explicit:
            self._in_flight.accept_all()

    def _take_decided(self) -> dict[int, Acknowledgements]:
        self._last_send_s = time.monotonic()
        return self._in_flight.take_decided()

    def _send_is_due(self) -> bool:
        return self._in_flight.has_decided and time.monotonic() - self._last_send_s >= _SEND_INTERVAL_S

    def _on_outcomes(self, outcomes: Mapping[int, Outcomes]) -> None:
        self._note_outcomes(outcomes)
        result = _by_topic_partition(outcomes)
        if result:
            self._unreported.append(result)

    def _note_outcomes(self, outcomes: Mapping[int, Outcomes]) -> None:
        with self._in_flight.lock:
            for node_id, of_node in outcomes.items():
                self._in_flight.on_outcomes(node_id, of_node)

    def _report(self) -> None:
        unreported, self._unreported = self._unreported, []
        for result in unreported:
            if self._on_acknowledged is not None:
                self._on_acknowledged(result)
                continue
            for partition, error in result.items():
                if error is not None:
                    _log.warning("records of %s will be delivered again: %s", partition, error)

    # -- membership

    def _join(self) -> None:
        if not self._joined:
            self._joined = True
            self._client.start()
            self._last_poll_s = time.monotonic()
            self._watch = asyncio.create_task(self._watch_polls())

    async def _watch_polls(self) -> None:
        """A member that does not poll must not keep its partitions from other consumers."""
        limit_s = self._settings.max_poll_interval_ms / 1000
        while True:
            left_s = self._last_poll_s + limit_s - time.monotonic()
            if left_s > 0 or self._polling:
                await asyncio.sleep(max(left_s, _POLL_S))
                continue
            _log.warning(
                "left share group %s: the last poll was %g s ago (max.poll.interval.ms). Poll more often, or "
                "lower max.poll.records",
                self._settings.group_id,
                limit_s,
            )
            self._watch = None
            await self._end_membership()
            return

    async def _end_membership(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        async with self._membership_turn:
            await self._fetcher.stop()
            with self._in_flight.lock:
                self._buffer.clear()
                acknowledgements = self._take_decided()
                self._in_flight.clear()
            if self._joined:
                self._joined = False
                self._on_outcomes(await self._client.close(acknowledgements))

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Leave the group; with implicit acknowledgement all delivered records are accepted."""
        if not self._closed and not self._in_flight.explicit:
            self._in_flight.accept_all()
        await self._close()

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._end_membership()
        finally:
            await self._cluster.close()
        self._report()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            await self.close()
        else:
            # The current record was not processed, so it is released.
            await self._close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientUnusable("the consumer is closed")


def _by_topic_partition(outcomes: Mapping[int, Outcomes]) -> CommitResult:
    """Two leaders may have records of a partition that moved: an error of one is the result."""
    result: CommitResult = {}
    for of_node in outcomes.values():
        for partition, error in of_node.items():
            result[partition.topic_partition] = error or result.get(partition.topic_partition)
    return result
