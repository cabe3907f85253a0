"""Those who read: from the beginning, again and again; and one who reads everything when all is over."""

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

PAUSE_MS = 800
POLLS_PER_LIFE = 8
DELETED_IS_GONE = "who reads before the start of a log is told so"
_WAIT_MS = 50


class Reader(SimClient):
    def __init__(
        self,
        name: str,
        cluster: SimCluster,
        history: History,
        isolation: Isolation,
        places: list[TopicPartition],
    ) -> None:
        super().__init__(name, cluster, history)
        self._stem = name
        self._isolation = isolation
        self._places = places
        self.sent_back: list[str] = []
        """Where a leader said that a position, which other leaders had given, does not exist."""

    async def run(self) -> None:
        life = 0
        while not self.stopping:
            life += 1
            # Whoever begins anew is somebody else: old stretches must look as they did.
            self.name = f"{self._stem}.{life}"
            positions: defaultdict[TopicPartition, int] = defaultdict(int)
            async with self.connect() as cluster:
                for _ in range(POLLS_PER_LIFE):
                    await self.pause(PAUSE_MS)
                    if self.is_stopping():
                        return
                    place = self.random.choice(self._places)
                    try:
                        if self.random.random() < 0.25:
                            await self.list_end(cluster, place, self._isolation)
                        else:
                            positions[place] = await self.poll(
                                cluster, place, positions[place], self._isolation
                            )
                    except KafkaError as error:
                        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                            self.sent_back.append(f"{place} at {positions[place]}")

    async def poll(self, cluster: Cluster, place: TopicPartition, start: int, isolation: Isolation) -> int:
        """Where to go on."""
        self.invoke(Poll(isolation))
        try:
            span = await _read(cluster, place, start, isolation)
        except KafkaError as error:
            self.complete(Kind.FAIL, Poll(isolation), str(error))
            raise
        self.complete(Kind.OK, Poll(isolation, (span,)))
        return span.end

    async def list_end(
        self, cluster: Cluster, place: TopicPartition, isolation: Isolation, *, final: bool = False
    ) -> int:
        self.invoke(ListEnds(isolation, final))
        committed = isolation is Isolation.READ_COMMITTED
        try:
            found = await Offsets(cluster).find({place: Spec.LATEST}, read_committed=committed)
        except KafkaError as error:
            self.complete(Kind.FAIL, ListEnds(isolation, final), str(error))
            raise
        end = found[place].offset
        self.complete(Kind.OK, ListEnds(isolation, final, ((place, end),)))
        return end


class Auditor(Reader):
    """Reads everything to its end, once nobody writes any more."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        places: list[TopicPartition],
        groups: list[str],
        source: TopicPartition,
        plain: list[TopicPartition],
    ) -> None:
        super().__init__("auditor", cluster, history, Isolation.READ_COMMITTED, places)
        self._groups = groups
        self._source = source
        self._plain = plain
        self.found: dict[TopicPartition, list[str]] = {}
        """What the partitions hold that are not written in transactions."""
        self.starts: dict[TopicPartition, int] = {}
        """Where these begin."""

    async def run(self) -> None:
        async with self.connect(patient=True) as cluster:
            for place in self._places:
                for isolation in Isolation:
                    end = await self.list_end(cluster, place, isolation, final=True)
                    position = 0
                    while position < end:
                        position = await self.poll(cluster, place, position, isolation)
            for place in self._plain:
                await self._read_all(cluster, place)
            for group in self._groups:
                call = FetchOffsets(group, final=True)
                self.invoke(call)
                offset = await committed_offset(cluster, group, self._source)
                self.complete(Kind.OK, FetchOffsets(group, True, ((self._source, offset),)))

    async def _read_all(self, cluster: Cluster, place: TopicPartition) -> None:
        offsets = Offsets(cluster)
        start = (await offsets.find({place: Spec.EARLIEST}))[place].offset
        end = (await offsets.find({place: Spec.LATEST}))[place].offset
        position = start
        found: list[str] = []
        while position < end:
            try:
                span = await _read(cluster, place, position, Isolation.READ_UNCOMMITTED)
            except KafkaError as error:
                start = (await offsets.find({place: Spec.EARLIEST}))[place].offset
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or start <= position:
                    raise
                # Retention came first.
                position = start
                continue
            found += [record.element for record in span.records]
            position = span.end
        self.found[place] = found
        self.starts[place] = start
        if start > 0:
            await self._read_below(cluster, place, start - 1)

    async def _read_below(self, cluster: Cluster, place: TopicPartition, offset: int) -> None:
        try:
            await _read(cluster, place, offset, Isolation.READ_UNCOMMITTED)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return
            raise
        raise InvariantBrokenError(DELETED_IS_GONE, f"{place} can be read at {offset}, before its start")


async def _read(cluster: Cluster, place: TopicPartition, start: int, isolation: Isolation) -> ReadRange:
    committed = isolation is Isolation.READ_COMMITTED
    fetched = (
        await RawClient(cluster).fetch({place: start}, max_wait_ms=_WAIT_MS, read_committed=committed)
    )[place]
    return span_of(place, start, fetched.records, fetched.aborted, isolation)
