"""Consumers of both isolation levels: they read from the start and record what they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from ruslo.client.wire.raw import AbortedTransaction as FetchedAbort
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.records.batch import BatchHeader
from ruslo.records.control import ControlType, read_control_type
from ruslo.records.reader import iter_batches, read_records
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.testing.histories import FetchOffsets, Isolation, Kind, ListEnds, Poll, ReadRange, SeenRecord
from ruslo.testing.simulation.txns.cluster import OFFSETS, SimTxnCluster
from ruslo.testing.simulation.txns.data_path import FetchBytes, Fetched, FetchedEnd, FetchEnd
from ruslo.testing.simulation.txns.offsets import FETCH_VERSION, SOURCE, fetch_request, fetched_offset
from ruslo.testing.simulation.txns.process import Ask, History, Script, SimProcess, Sleep

TIMEOUT_MS = 1_000
LIFE = 15
"""The number of polls after which a new reader starts again: old ranges must look the same."""


def span_of(
    place: TopicPartition,
    start: int,
    fetched: ReadBuffer,
    aborted_ones: Iterable[AbortedTransaction | FetchedAbort],
    isolation: Isolation,
) -> ReadRange:
    """The records of a fetch, without control records and, for read_committed, aborted ones."""
    data = memoryview(fetched)
    to_come = sorted(aborted_ones, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    records: list[SeenRecord] = []
    end = start
    for at, header in iter_batches(data):
        batch = data[at : at + header.size]
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborted.add(to_come.pop(0).producer_id)
        if header.is_control:
            if _is_abort(batch):
                aborted.discard(header.producer_id)
        elif isolation is Isolation.READ_UNCOMMITTED or not _is_aborted(header, aborted):
            records += (record for record in _records(batch) if record.offset >= start)
        end = max(end, header.last_offset + 1)
    return ReadRange(place, start, end, tuple(records))


def _is_aborted(header: BatchHeader, aborted: set[int]) -> bool:
    return header.is_transactional and header.producer_id in aborted


def _is_abort(batch: memoryview) -> bool:
    return any(read_control_type(record.key) == ControlType.ABORT for record in read_records(batch))


def _records(batch: memoryview) -> Iterator[SeenRecord]:
    for record in read_records(batch):
        assert record.key is not None
        assert record.value is not None
        yield SeenRecord(record.offset, bytes(record.key).decode(), bytes(record.value).decode())


class SimReader(SimProcess):
    def __init__(
        self,
        name: str,
        cluster: SimTxnCluster,
        history: History,
        isolation: Isolation,
        *,
        is_stopping: Callable[[], bool],
    ) -> None:
        super().__init__(name, cluster, history)
        self._isolation = isolation
        self._is_stopping = is_stopping
        self._stem = name
        self.start(self._run())

    def _run(self) -> Script[None]:
        for life in count(1):
            self.name = f"{self._stem}.{life}"
            positions: defaultdict[TopicPartition, int] = defaultdict(int)
            for _ in range(LIFE):
                yield Sleep(self.random.randint(50, 1_200))
                if self._is_stopping():
                    return
                place = self.random.choice(self.cluster.places)
                if self.random.random() < 0.2:
                    yield from list_end(self, place, self._isolation)
                else:
                    max_bytes = self.random.choice((200, 100_000))
                    positions[place] = yield from poll(
                        self, place, positions[place], self._isolation, max_bytes
                    )


class SimAuditor(SimProcess):
    """Read all partitions to their ends, when all producers have stopped."""

    def __init__(self, cluster: SimTxnCluster, history: History, groups: Iterable[str]) -> None:
        super().__init__("auditor", cluster, history)
        self.done = False
        self._groups = list(groups)
        self.start(self._run())

    def _run(self) -> Script[None]:
        for isolation in Isolation:
            for place in self.cluster.places:
                end = yield from list_end(self, place, isolation, final=True)
                position = 0
                while position < end:
                    position = yield from poll(self, place, position, isolation, 100_000)
        for group in self._groups:
            yield from self._fetch_offset(group)
        self.done = True

    def _fetch_offset(self, group: str) -> Script[None]:
        self.invoke(FetchOffsets(group, final=True))
        leader = self.cluster.leaders[OFFSETS]
        reply = yield from self.ask(leader, fetch_request(group), FETCH_VERSION, OffsetFetchResponse)
        offset = None if reply is None else fetched_offset(reply)
        if offset is None:
            self.complete(Kind.FAIL, FetchOffsets(group, final=True), "no answer")
        else:
            self.complete(Kind.OK, FetchOffsets(group, True, ((SOURCE, offset),)))


def poll(
    process: SimProcess, place: TopicPartition, start: int, isolation: Isolation, max_bytes: int
) -> Script[int]:
    """Fetch records and return the next offset."""
    request = FetchBytes(place, start, isolation, max_bytes)

    process.invoke(Poll(isolation))
    reply: Fetched | None = yield Ask(
        process.cluster.leaders[place], lambda node, answer: node.fetch(request, answer), TIMEOUT_MS
    )
    if reply is None or reply.code is not ErrorCode.NONE:
        process.complete(Kind.FAIL, Poll(isolation), "no answer" if reply is None else reply.code.name)
        return start
    span = span_of(place, start, reply.data, reply.aborted, isolation)
    process.complete(Kind.OK, Poll(isolation, (span,)))
    return span.end


def list_end(
    process: SimProcess, place: TopicPartition, isolation: Isolation, *, final: bool = False
) -> Script[int]:
    """The end offset; -1 if it is unknown."""
    request = FetchEnd(place, isolation)

    process.invoke(ListEnds(isolation, final))
    reply: FetchedEnd | None = yield Ask(
        process.cluster.leaders[place], lambda node, answer: node.fetch_end(request, answer), TIMEOUT_MS
    )
    if reply is None or reply.code is not ErrorCode.NONE:
        note = "no answer" if reply is None else reply.code.name
        process.complete(Kind.FAIL, ListEnds(isolation, final), note)
        return -1
    process.complete(Kind.OK, ListEnds(isolation, final, ((place, reply.offset),)))
    return reply.offset
