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
from ruslo.testing.simulation.txns.process import History, Script, SendRequest, SimProcess, Sleep

TIMEOUT_MS = 1_000
POLLS_PER_INCARNATION = 15
"""The number of polls after which the reader starts from the beginning: old ranges must not have changed."""


def span_of(
    tp: TopicPartition,
    start: int,
    fetched: ReadBuffer,
    transactions: Iterable[AbortedTransaction | FetchedAbort],
    isolation: Isolation,
) -> ReadRange:
    """Return the records of a fetch, without control records and, for read_committed, aborted ones."""
    data = memoryview(fetched)
    upcoming = sorted(transactions, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    records: list[SeenRecord] = []
    end = start
    for at, header in iter_batches(data):
        batch = data[at : at + header.size]
        while upcoming and upcoming[0].first_offset <= header.last_offset:
            aborted.add(upcoming.pop(0).producer_id)
        if header.is_control:
            if _is_abort(batch):
                aborted.discard(header.producer_id)
        elif isolation is Isolation.READ_UNCOMMITTED or not _is_aborted(header, aborted):
            records += (record for record in _records(batch) if record.offset >= start)
        end = max(end, header.last_offset + 1)
    return ReadRange(tp, start, end, tuple(records))


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
        for incarnation in count(1):
            self.name = f"{self._stem}.{incarnation}"
            positions: defaultdict[TopicPartition, int] = defaultdict(int)
            for _ in range(POLLS_PER_INCARNATION):
                yield Sleep(self.random.randint(50, 1_200))
                if self._is_stopping():
                    return
                tp = self.random.choice(self.cluster.tps)
                if self.random.random() < 0.2:
                    yield from list_end(self, tp, self._isolation)
                else:
                    max_bytes = self.random.choice((200, 100_000))
                    positions[tp] = yield from poll(self, tp, positions[tp], self._isolation, max_bytes)


class SimAuditor(SimProcess):
    """Read all partitions to their ends, when all producers have stopped."""

    def __init__(self, cluster: SimTxnCluster, history: History, groups: Iterable[str]) -> None:
        super().__init__("auditor", cluster, history)
        self.done = False
        self._groups = list(groups)
        self.start(self._run())

    def _run(self) -> Script[None]:
        for isolation in Isolation:
            for tp in self.cluster.tps:
                end = yield from list_end(self, tp, isolation, final=True)
                position = 0
                while position < end:
                    position = yield from poll(self, tp, position, isolation, 100_000)
        for group in self._groups:
            yield from self._fetch_offset(group)
        self.done = True

    def _fetch_offset(self, group: str) -> Script[None]:
        self.invoke(FetchOffsets(group, final=True))
        leader = self.cluster.leaders[OFFSETS]
        reply = yield from self.call(leader, fetch_request(group), FETCH_VERSION, OffsetFetchResponse)
        offset = None if reply is None else fetched_offset(reply)
        if offset is None:
            self.complete(Kind.FAIL, FetchOffsets(group, final=True), "no response")
        else:
            self.complete(Kind.OK, FetchOffsets(group, True, ((SOURCE, offset),)))


def poll(
    process: SimProcess, tp: TopicPartition, start: int, isolation: Isolation, max_bytes: int
) -> Script[int]:
    """Fetch records and return the next offset."""
    request = FetchBytes(tp, start, isolation, max_bytes)

    process.invoke(Poll(isolation))
    reply: Fetched | None = yield SendRequest(
        process.cluster.leaders[tp], lambda node, on_reply: node.fetch(request, on_reply), TIMEOUT_MS
    )
    if reply is None or reply.code is not ErrorCode.NONE:
        process.complete(Kind.FAIL, Poll(isolation), "no response" if reply is None else reply.code.name)
        return start
    span = span_of(tp, start, reply.data, reply.aborted, isolation)
    process.complete(Kind.OK, Poll(isolation, (span,)))
    return span.end


def list_end(
    process: SimProcess, tp: TopicPartition, isolation: Isolation, *, final: bool = False
) -> Script[int]:
    """The end offset; -1 if it is unknown."""
    request = FetchEnd(tp, isolation)

    process.invoke(ListEnds(isolation, final))
    reply: FetchedEnd | None = yield SendRequest(
        process.cluster.leaders[tp], lambda node, on_reply: node.fetch_end(request, on_reply), TIMEOUT_MS
    )
    if reply is None or reply.code is not ErrorCode.NONE:
        note = "no response" if reply is None else reply.code.name
        process.complete(Kind.FAIL, ListEnds(isolation, final), note)
        return -1
    process.complete(Kind.OK, ListEnds(isolation, final, ((tp, reply.offset),)))
    return reply.offset
