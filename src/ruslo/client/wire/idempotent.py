"""Idempotent sending of encoded batches: each batch gets a producer id and sequence, so retries do not
duplicate it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from struct import Struct
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import Produced, RawClient
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import ConnectionLost
from ruslo.records.batch import ATTRIBUTES_AT, COUNT_AT, PRODUCER_ID_AT, TRANSACTIONAL
from ruslo.records.builder import set_crc

_IN_FLIGHT_MAX = 5
"""Brokers deduplicate the last five batches of a producer in a partition."""
_REQUEST_BYTES_MAX = 8 * 1024 * 1024
_SEQUENCE_COUNT = 1 << 31
_ATTRIBUTES = Struct(">h")
_PRODUCER = Struct(">qhi")
_COUNT = Struct(">i")


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


@dataclass(eq=False)
class IdempotentSender:
    """Appends each batch exactly once and in order, per partition.

    - A batch is a separate bytearray without producer fields; the sender fills them in.
    - Several requests are in flight. After an error, every batch that is not acknowledged is sent again, and
      brokers drop duplicates.
    - Sequences continue from one ``send`` to the next.
    - The first batch of a partition is sent alone. A broker that does not know the producer accepts any first
      sequence, so a lost first batch would go unnoticed.
    """

    _cluster: Cluster
    _identity: ProducerIdAndEpoch
    _: KW_ONLY
    transactional_id: str | None = None
    max_version: int | None = None

    def __post_init__(self) -> None:
        self._raw = RawClient(self._cluster)
        self._sequences: dict[TopicPartition, int] = {}
        self._known: set[TopicPartition] = set()
        """Partitions that have acknowledged a batch of this producer."""

    async def send(self, batches: Mapping[TopicPartition, Iterable[bytearray]]) -> None:
        """Return when every batch is acknowledged; raises errors that are not retriable, or last too long.

        Every acknowledgement restarts the timeout, so a long transfer may take longer than the timeout.
        """
        lanes = [
            _Lane(partition, self._stamped(partition, given), self._known)
            for partition, given in batches.items()
        ]

        async def attempt() -> None:
            unfinished = {lane.partition: lane for lane in lanes if not lane.finished}
            by_node = await self._cluster.leaders(list(unfinished))
            before = sum(lane.acked for lane in lanes)
            await asyncio.gather(
                *(self._send_to(node, [unfinished[p] for p in owned]) for node, owned in by_node.items())
            )
            failures = [error for lane in lanes if (error := lane.rewind()) is not None]
            for error in failures:
                if not error.code.retriable or sum(lane.acked for lane in lanes) == before:
                    raise error

        while not all(lane.finished for lane in lanes):
            await self._cluster.retrying(attempt)

    async def _send_to(self, node: int, lanes: Sequence[_Lane]) -> None:
        """Keep requests in flight to one broker until its lanes are finished or one fails."""
        in_flight: deque[asyncio.Task[None]] = deque()
        try:
            while True:
                load = _next_load(lanes)
                if not load:
                    break
                if len(in_flight) == _IN_FLIGHT_MAX:
                    await in_flight.popleft()
                # A task runs to its first await before the next one starts, so requests are sent in order.
                in_flight.append(asyncio.create_task(self._request(node, load)))
                await asyncio.sleep(0)
            while in_flight:
                await in_flight.popleft()
        finally:
            for task in in_flight:
                task.cancel()

    async def _request(self, node: int, load: Mapping[_Lane, bytearray]) -> None:
        results: Mapping[TopicPartition, Produced | KafkaError] = {}
        try:
            results = await self._raw.produce_at(
                node,
                {lane.partition: batch for lane, batch in load.items()},
                transactional_id=self.transactional_id,
                max_version=self.max_version,
            )
            missing: KafkaError = ConnectionLost(f"the response of broker {node} lacks a partition")
        except KafkaError as error:
            missing = error
        for lane in load:
            lane.complete(results.get(lane.partition, missing))

    def _stamped(self, partition: TopicPartition, batches: Iterable[bytearray]) -> Iterator[bytearray]:
        for batch in batches:
            sequence = self._sequences.get(partition, 0)
            (count,) = _COUNT.unpack_from(batch, COUNT_AT)
            self._sequences[partition] = (sequence + count) % _SEQUENCE_COUNT
            _PRODUCER.pack_into(batch, PRODUCER_ID_AT, *self._identity, sequence)
            if self.transactional_id is not None:
                (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
                _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | TRANSACTIONAL)
            set_crc(batch)
            yield batch


class _Lane:
    """One partition's batches: not yet sent, sent and unacknowledged, and the first error."""

    def __init__(
        self, partition: TopicPartition, batches: Iterator[bytearray], known: set[TopicPartition]
    ) -> None:
        self.partition = partition
        self.acked = 0
        self.failure: KafkaError | None = None
        self._batches = batches
        self._known = known
        self._unacked: deque[bytearray] = deque()
        self._sent = 0
        """The number of unacknowledged batches that are in flight."""

    @property
    def finished(self) -> bool:
        if self._unacked:
            return False
        following = next(self._batches, None)
        if following is None:
            return True
        self._batches = chain([following], self._batches)
        return False

    def next(self) -> bytearray | None:
        """The next batch to send; None at the end, after an error, and while the first batch is in flight."""
        if self.failure is not None or (self._sent and self.partition not in self._known):
            return None
        if self._sent == len(self._unacked):
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._unacked.append(batch)
        self._sent += 1
        return self._unacked[self._sent - 1]

    def complete(self, result: Produced | KafkaError) -> None:
        """Results arrive in order. Those after the first error are ignored: all these batches are sent again,
        and the broker drops duplicates."""
        if self.failure is not None:
            return
        if isinstance(result, KafkaError):
            self.failure = result
            return
        self._unacked.popleft()
        self._sent -= 1
        self.acked += 1
        self._known.add(self.partition)

    def rewind(self) -> KafkaError | None:
        """Schedule unacknowledged batches to be sent again; returns and clears the error."""
        failure, self.failure = self.failure, None
        self._sent = 0
        return failure


def _next_load(lanes: Iterable[_Lane]) -> dict[_Lane, bytearray]:
    """One batch of each lane (a request holds one per partition), up to the request size limit."""
    load: dict[_Lane, bytearray] = {}
    size = 0
    for lane in lanes:
        batch = lane.next()
        if batch is not None:
            load[lane] = batch
            size += len(batch)
            if size >= _REQUEST_BYTES_MAX:
                break
    return load
