"""Idempotent producers with acks=all, transactional producers, and clients that only commit offsets."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.errors import TransactionLost
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.client.wire.idempotent import IdempotentSender
from ruslo.client.wire.transactional import TransactionalProducer, new_producer_id
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.testing.histories import Append, End, FetchOffsets, Kind, SendOffsets
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.txns.process import History

MAX_PAUSE_MS = 350
TRANSACTION_TIMEOUT_MS = 1_500
NO_OFFSET = -1
KEYS = 2
"""Keys per writer: few, so that compaction has something to remove."""
COMMITTER_PAUSE_MS = 600


def batch_of(now_ms: int, key: str, *values: str) -> bytearray:
    return build_batch([Record(at, now_ms, key.encode(), value.encode()) for at, value in enumerate(values)])


class Ledger:
    """The records that idempotent writers sent, in order, and those that were acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[str, TopicPartition] = {}
        self.acked: defaultdict[TopicPartition, list[str]] = defaultdict(list)


class IdempotentWriter(SimClient):
    """Uses acks=all. After a send with unknown outcome it continues with another producer id."""

    def __init__(
        self,
        name: str,
        cluster: SimCluster,
        history: History,
        ledger: Ledger,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(name, cluster, history)
        self._ledger = ledger
        self._partitions = partitions
        self._numbers = count()

    async def run(self) -> None:
        async with self.connect() as cluster:
            while not self.stopping:
                try:
                    sender = IdempotentSender(cluster, await new_producer_id(cluster))
                    while not self.stopping:
                        await self._send(sender)
                        await self.pause(MAX_PAUSE_MS)
                except KafkaError:
                    await self.pause(MAX_PAUSE_MS)

    async def _send(self, sender: IdempotentSender) -> None:
        random, ledger = self.random, self._ledger
        tp = random.choice(self._partitions)
        batches, values = [], []
        for _ in range(random.choice((1, 1, 1, 3))):
            elements = [f"{self.name}.{next(self._numbers)}" for _ in range(random.randint(1, 2))]
            ledger.sent.update(dict.fromkeys(elements, tp))
            values += elements
            batches.append(batch_of(self.now_ms(), f"{self.name}.{random.randrange(KEYS)}", *elements))
        await sender.send({tp: batches})
        ledger.acked[tp] += values


class TransactionalWriter(SimClient):
    """Appends to several partitions, sometimes commits offsets too, and commits or aborts."""

    def __init__(
        self,
        name: str,
        transactional_id: str,
        cluster: SimCluster,
        history: History,
        partitions: list[TopicPartition],
        source: TopicPartition,
        keyed: TopicPartition,
    ) -> None:
        """``keyed``: a compacted partition, which is not read as a list."""
        super().__init__(name, cluster, history)
        self._keyed = keyed
        self._transactional_id = transactional_id
        self._partitions = partitions
        self._source = source
        self._group = group_of(transactional_id)
        self._position: int | None = None
        self._numbers = count(1)

    async def run(self) -> None:
        async with self.connect() as cluster:
            offsets = GroupOffsets(cluster, Coordinators(cluster))
            while not self.stopping:
                producer = TransactionalProducer(
                    cluster, self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
                )
                self._position = None
                try:
                    await producer.init()
                    while not self.stopping and await self._transaction(producer, offsets):
                        await self.pause(MAX_PAUSE_MS)
                except KafkaError:
                    await self.pause(MAX_PAUSE_MS)

    async def _transaction(self, producer: TransactionalProducer, offsets: GroupOffsets) -> bool:
        """Returns whether the producer can continue."""
        name = f"{self.name}.{next(self._numbers)}"
        try:
            for number in range(self.random.randint(1, 3)):
                await self._append(producer, name, f"{name}.{number}")
            if self.random.random() < 0.3:
                await self._send_offsets(producer, offsets, name)
        except KafkaError as error:
            return not isinstance(error, TransactionLost) and await self._end(producer, name, commit=False)
        return await self._end(producer, name, commit=self.random.random() < 0.8)

    async def _append(self, producer: TransactionalProducer, name: str, element: str) -> None:
        """Often append to two partitions at once: one may already be in the transaction, so its batch is
        appended while the other still waits for the coordinator."""
        tp = self.random.choice(self._partitions)
        call = Append(name, tp, f"{tp}", element)
        batches = {tp: [batch_of(self.now_ms(), call.key, element)]}
        if self.random.random() < 0.4:
            key = f"{self.name}.{self.random.randrange(KEYS)}"
            batches[self._keyed] = [batch_of(self.now_ms(), key, element)]
        with self.recorded(call):
            await producer.send(batches)

    async def _send_offsets(self, producer: TransactionalProducer, offsets: GroupOffsets, name: str) -> None:
        if self._position is None:
            self._position = await self._committed_position(offsets)
        first = self._position
        call = SendOffsets(name, self._group, self._source, first, first + self.random.randint(1, 9))
        with self.recorded(call):
            await producer.commit_offsets(self._group, {self._source: call.end})
        self._position = call.end

    async def _committed_position(self, offsets: GroupOffsets) -> int:
        with self.recorded(FetchOffsets(self._group), Kind.FAIL) as calls:
            found = (await offsets.fetch(self._group, require_stable=True)).get(self._source)
            offset = NO_OFFSET if found is None else found.offset
            calls.append(FetchOffsets(self._group, False, ((self._source, offset),)))
        return max(offset, 0)

    async def _end(self, producer: TransactionalProducer, name: str, *, commit: bool) -> bool:
        call = End(name, commit)
        self.invoke(call)
        try:
            await (producer.commit() if commit else producer.abort())
        except KafkaError as error:
            self.complete(Kind.INFO, call, str(error))
            return False
        self.complete(Kind.OK, call)
        if not commit:
            self._position = None
        return True


def group_of(transactional_id: str) -> str:
    return f"group of {transactional_id}"


async def committed_offset(cluster: Cluster, group: str, tp: TopicPartition) -> int:
    """The committed offset of the group, once no open transaction can change it."""
    found = (await GroupOffsets(cluster, Coordinators(cluster)).fetch(group, require_stable=True)).get(tp)
    return NO_OFFSET if found is None else found.offset


class Committer(SimClient):
    """Commits offsets of groups without members and verifies that they are kept.

    Each commit uses its own group: a late request may revert an offset, in Kafka too, but not one that is
    written once."""

    def __init__(self, name: str, cluster: SimCluster, history: History, tp: TopicPartition) -> None:
        super().__init__(name, cluster, history)
        self._tp = tp
        self._last = 0
        self.acked: list[int] = []

    async def run(self) -> None:
        async with self.connect() as cluster:
            while not self.stopping:
                await self.pause(COMMITTER_PAUSE_MS)
                try:
                    if self.acked and self.random.random() < 0.3:
                        await self._verify(cluster, self.random.choice(self.acked))
                    else:
                        await self._commit(cluster)
                except KafkaError:
                    continue
        async with self.connect(with_long_timeout=True) as cluster:
            for number in self.acked:
                await self._verify(cluster, number)

    async def _commit(self, cluster: Cluster) -> None:
        self._last = number = self._last + 1
        offsets = GroupOffsets(cluster, Coordinators(cluster))
        outcome = await offsets.alter(f"{self.name}-{number}", {self._tp: number})
        if outcome[self._tp] is None:
            self.acked.append(number)

    async def _verify(self, cluster: Cluster, number: int) -> None:
        found = await committed_offset(cluster, f"{self.name}-{number}", self._tp)
        if found != number:
            self.problems.append(f"offset {number} was committed for {self.name}-{number}, but found {found}")
