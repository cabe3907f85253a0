"""Readers that start from the beginning again and again, and an auditor that reads everything at the end."""

from __future__ import annotations

from collections import defaultdict

from ruslo.client.admin.offsets import Offsets, Spec
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.testing.histories import FetchOffsets, Isolation, Kind, ListEnds, Poll
from ruslo.testing.histories.events import ReadRange
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.clients.writers import committed_offset
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError
from ruslo.testing.simulation.txns.process import History
from ruslo.testing.simulation.txns.reader import span_of

MAX_PAUSE_MS = 800
POLLS_PER_INCARNATION = 8
DELETED_IS_OUT_OF_RANGE = "a fetch below the log start offset is OFFSET_OUT_OF_RANGE"
_WAIT_MS = 50


class Reader(SimClient):
    def __init__(
        self,
        name: str,
        cluster: SimCluster,
        history: History,
        isolation: Isolation,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(name, cluster, history)
        self._stem = name
        self._isolation = isolation
        self._partitions = partitions

    async def run(self) -> None:
        incarnation = 0
        while not self.stopping:
            incarnation += 1
            # A restarted reader is another process in the history: it must read the same records again.
            self.name = f"{self._stem}.{incarnation}"
            positions: defaultdict[TopicPartition, int] = defaultdict(int)
            async with self.connect() as cluster:
                for _ in range(POLLS_PER_INCARNATION):
                    await self.pause(MAX_PAUSE_MS)
                    if self.is_stopping():
                        return
                    tp = self.random.choice(self._partitions)
                    try:
                        if self.random.random() < 0.25:
                            await self.list_end(cluster, tp, self._isolation)
                        else:
                            positions[tp] = await self.poll(cluster, tp, positions[tp], self._isolation)
                    except KafkaError as error:
                        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                            # One leader returned the position, and another leader rejects it.
                            self.problems.append(f"{tp} at {positions[tp]}")

    async def poll(self, cluster: Cluster, tp: TopicPartition, start: int, isolation: Isolation) -> int:
        """Returns the next position."""
        with self.recorded(Poll(isolation), Kind.FAIL) as calls:
            span = await _read(cluster, tp, start, isolation)
            calls.append(Poll(isolation, (span,)))
        return span.end

    async def list_end(
        self, cluster: Cluster, tp: TopicPartition, isolation: Isolation, *, final: bool = False
    ) -> int:
        committed = isolation is Isolation.READ_COMMITTED
        with self.recorded(ListEnds(isolation, final), Kind.FAIL) as calls:
            found = await Offsets(cluster).find({tp: Spec.LATEST}, read_committed=committed)
            end = found[tp].offset
            calls.append(ListEnds(isolation, final, ((tp, end),)))
        return end


class Auditor(Reader):
    """Reads everything to the end once all writers have stopped."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        partitions: list[TopicPartition],
        groups: list[str],
        source: TopicPartition,
        plain: list[TopicPartition],
    ) -> None:
        super().__init__("auditor", cluster, history, Isolation.READ_COMMITTED, partitions)
        self._groups = groups
        self._source = source
        self._plain = plain
        self.found: dict[TopicPartition, list[str]] = {}
        """The values of partitions that are written without transactions."""
        self.starts: dict[TopicPartition, int] = {}
        """The log start offsets of these partitions."""

    async def run(self) -> None:
        async with self.connect(with_long_timeout=True) as cluster:
            for tp in self._partitions:
                for isolation in Isolation:
                    end = await self.list_end(cluster, tp, isolation, final=True)
                    position = 0
                    while position < end:
                        position = await self.poll(cluster, tp, position, isolation)
            for tp in self._plain:
                await self._read_all(cluster, tp)
            for group in self._groups:
                call = FetchOffsets(group, final=True)
                self.invoke(call)
                offset = await committed_offset(cluster, group, self._source)
                self.complete(Kind.OK, FetchOffsets(group, True, ((self._source, offset),)))

    async def _read_all(self, cluster: Cluster, tp: TopicPartition) -> None:
        offsets = Offsets(cluster)
        start = (await offsets.find({tp: Spec.EARLIEST}))[tp].offset
        end = (await offsets.find({tp: Spec.LATEST}))[tp].offset
        position = start
        found: list[str] = []
        while position < end:
            try:
                span = await _read(cluster, tp, position, Isolation.READ_UNCOMMITTED)
            except KafkaError as error:
                start = (await offsets.find({tp: Spec.EARLIEST}))[tp].offset
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or start <= position:
                    raise
                # Retention has deleted the records meanwhile.
                position = start
                continue
            found += [record.element for record in span.records]
            position = span.end
        self.found[tp] = found
        self.starts[tp] = start
        if start > 0:
            await self._read_below(cluster, tp, start - 1)

    async def _read_below(self, cluster: Cluster, tp: TopicPartition, offset: int) -> None:
        try:
            await _read(cluster, tp, offset, Isolation.READ_UNCOMMITTED)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return
            raise
        raise InvariantBrokenError(DELETED_IS_OUT_OF_RANGE, f"{tp} can be read at {offset}, before its start")


async def _read(cluster: Cluster, tp: TopicPartition, start: int, isolation: Isolation) -> ReadRange:
    committed = isolation is Isolation.READ_COMMITTED
    fetched = (await RawClient(cluster).fetch({tp: start}, max_wait_ms=_WAIT_MS, read_committed=committed))[
        tp
    ]
    return span_of(tp, start, fetched.records, fetched.aborted, isolation)
