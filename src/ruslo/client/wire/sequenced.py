"""Sends ready-made batches so that a retry stores nothing twice: each has a producer id and a sequence."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""Brokers remember the last five batches of a producer in a partition, and know those again."""
_REQUEST_BYTES_MAX = 8 * 1024 * 1024
_SEQUENCES = 1 << 31
_ATTRIBUTES = Struct(">h")
_PRODUCER = Struct(">qhi")
_COUNT = Struct(">i")


class ProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int


class SequencedSender:
    """Batches of a partition are stored once each and in the order given.

    A batch is a bytearray of its own, without a producer; it is stamped here. Several requests are in flight;
    after a fault all that is not acknowledged is sent again, and brokers drop what they have. Sequences count
    on from one ``send`` to the next, as the identity demands. The first batch of a partition goes alone: a
    broker that does not know the producer begins with whatever sequence arrives, and those before it may have
    been lost on the way.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        *,
        transactional_id: str | None = None,
        max_version: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._raw = RawClient(cluster)
        self._identity = identity
        self._transactional_id = transactional_id
        self._max_version = max_version
        self._sequences: dict[TopicPartition, int] = {}
        self._known: set[TopicPartition] = set()
        """Partitions that have acknowledged something of this producer."""

    async def send(self, batches: Mapping[TopicPartition, Iterable[bytearray]]) -> None:
        """Return when all is acknowledged; raises what will not pass, or what has not passed in time.

        The time counts from the last batch that went through, so that a long transfer may take long.
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
        """Keep requests in flight to one broker until its lanes are through, or one has failed."""
        in_flight: deque[asyncio.Task[None]] = deque()
        try:
            while True:
                load = _next_load(lanes)
                if not load:
                    break
                if len(in_flight) == _IN_FLIGHT_MAX:
                    await in_flight.popleft()
                # A task runs up to its first pause before the next one starts: requests leave in this order.
                in_flight.append(asyncio.create_task(self._request(node, load)))
                await asyncio.sleep(0)
            while in_flight:
                await in_flight.popleft()
        finally:
            for task in in_flight:
                task.cancel()

    async def _request(self, node: int, load: Mapping[_Lane, bytearray]) -> None:
        answers: Mapping[TopicPartition, Produced | KafkaError] = {}
        try:
            answers = await self._raw.produce_at(
                node,
                {lane.partition: batch for lane, batch in load.items()},
                transactional_id=self._transactional_id,
                max_version=self._max_version,
            )
            silent: KafkaError = ConnectionLost(f"broker {node} left a partition out of its answer")
        except KafkaError as error:
            silent = error
        for lane in load:
            lane.answered(answers.get(lane.partition, silent))

    def _stamped(self, partition: TopicPartition, batches: Iterable[bytearray]) -> Iterator[bytearray]:
        for batch in batches:
            sequence = self._sequences.get(partition, 0)
            (count,) = _COUNT.unpack_from(batch, COUNT_AT)
            self._sequences[partition] = (sequence + count) % _SEQUENCES
            _PRODUCER.pack_into(batch, PRODUCER_ID_AT, *self._identity, sequence)
            if self._transactional_id is not None:
                (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
                _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | TRANSACTIONAL)
            set_crc(batch)
            yield batch


class _Lane:
    """One partition's way: what is still to come, what is sent and not acknowledged, what went wrong."""

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
        """How many of the unacknowledged ones are on their way."""

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
        """The next batch to send; None at the end, after a fault, and while the first one is on its way."""
        if self.failure is not None or (self._sent and self.partition not in self._known):
            return None
        if self._sent == len(self._unacked):
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._unacked.append(batch)
        self._sent += 1
        return self._unacked[self._sent - 1]

    def answered(self, answer: Produced | KafkaError) -> None:
        """Answers come in order. After the first fault the others of the round mean nothing: all of it is
        sent again, and what the broker has it knows."""
        if self.failure is not None:
            return
        if isinstance(answer, KafkaError):
            self.failure = answer
            return
        self._unacked.popleft()
        self._sent -= 1
        self.acked += 1
        self._known.add(self.partition)

    def rewind(self) -> KafkaError | None:
        """Be ready to send again what is not acknowledged; answers with the fault that made it necessary."""
        failure, self.failure = self.failure, None
        self._sent = 0
        return failure


def _next_load(lanes: Iterable[_Lane]) -> dict[_Lane, bytearray]:
    """A batch of each lane (a request may hold only one per partition), up to the size of a request."""
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
