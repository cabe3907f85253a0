"""Fetch v4-18: byte ranges of segments, as they lie on disk.

v4 isolation level, v5 log start offset, v7 sessions (KIP-227), v9 leader epoch (KIP-320), v10 zstd, v11
rack id, v12 flexible and diverging epochs (KIP-595), v13 topic ids, v15 replica state, v16 leader hints,
v17 directory ids, v18 high watermark.

The second half of the hot path. Reading finds out *where* the bytes are; they travel from the page cache to
the socket when the connection has room for them. A fetch that finds less than ``min_bytes`` waits in
purgatory and then reads again from the start.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ruslo.broker.metrics.api_stats import ApiStats, now_ns
from ruslo.broker.partitions.purgatory import DelayedFetch
from ruslo.broker.partitions.whereabouts import NOBODY_ELSE, leader_hint
from ruslo.machines.fetch_session import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchedPartition,
    FetchSessionCache,
)
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.fetch_codec import FetchBody, FetchHints, decode_fetch_request, encode_fetch_response
from ruslo.protocol.fetch_codec import FetchedPartition as PartitionAnswer
from ruslo.storage.disk import FileSlice
from ruslo.storage.log_reader import EMPTY_READ, LogRead

if TYPE_CHECKING:
    from ruslo.broker.metrics.traffic import TopicTraffic
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.partition import Partition
    from ruslo.broker.partitions.whereabouts import Whereabouts
    from ruslo.model.clock import Clock
    from ruslo.net.connection import Chunk, Connection, Reply

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
ZSTD_FROM = 10
RACKS_FROM = 11
STORAGE_ERROR_FROM = 6
READ_COMMITTED = 1

_FRAME_HEAD = struct.Struct(">ii")


class FetchHandler:
    def __init__(
        self,
        partitions: PartitionManager,
        whereabouts: Whereabouts,
        clock: Clock,
        stats: ApiStats,
        max_response_bytes: int,
        max_sessions: int,
    ) -> None:
        self.partitions = partitions
        self.whereabouts = whereabouts
        self._clock = clock
        self.stats = stats
        self.max_response_bytes = max_response_bytes
        self._sessions = FetchSessionCache(max_sessions)

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        begun_ns = now_ns()
        body = decode_fetch_request(buf, pos, end, version)
        context = self._open_context(body, version)
        fetch = Fetch(self, connection.listener_name, body, context, version, correlation_id, begun_ns)
        if context.error or not fetch.read() or body.max_wait_ms <= 0:
            connection.send_all(fetch.answer())
        else:
            fetch.wait(connection.defer())

    def _open_context(self, body: FetchBody, version: int) -> FetchContext:
        listed = [
            FetchedPartition(topic, index, offset, max_bytes, leader_epoch, fetched_epoch, log_start)
            for topic, partitions in body.topics
            for index, leader_epoch, offset, fetched_epoch, log_start, max_bytes, _, _ in partitions
        ]
        if body.session_epoch == FINAL_EPOCH and body.session_id == NO_SESSION:
            return FetchContext(listed)
        forgotten = [(topic, index) for topic, indexes in body.forgotten_topics for index in indexes]
        return self._sessions.open(
            body.session_id,
            body.session_epoch,
            listed,
            forgotten,
            version >= TOPIC_IDS_FROM,
            self._clock.monotonic_ms(),
        )


class Fetch:
    """One request on its way: read, perhaps wait and read again, answer."""

    __slots__ = (
        "_answers",
        "_begun_ns",
        "_body",
        "_conclusive",
        "_context",
        "_correlation_id",
        "_leaders",
        "_listener_name",
        "_manager",
        "_max_bytes",
        "_min_bytes",
        "_readable",
        "_reply",
        "_size",
        "_stats",
        "_version",
        "_whereabouts",
    )

    def __init__(
        self,
        handler: FetchHandler,
        listener_name: str,
        body: FetchBody,
        context: FetchContext,
        version: int,
        correlation_id: int,
        begun_ns: int,
    ) -> None:
        self._stats = handler.stats
        self._begun_ns = begun_ns
        self._manager = handler.partitions
        self._whereabouts = handler.whereabouts
        self._listener_name = listener_name
        self._max_bytes = min(body.max_bytes, handler.max_response_bytes)
        # Nobody can wait for more than would be sent.
        self._min_bytes = min(body.min_bytes, self._max_bytes)
        self._body = body
        self._context = context
        self._version = version
        self._correlation_id = correlation_id
        self._answers: list[tuple[FetchedPartition, PartitionAnswer[FileSlice], Partition | None]] = []
        self._readable: list[Partition] = []
        self._size = 0
        self._conclusive = False
        """Waiting would not change the answer, or must not delay it."""
        self._reply: Reply | None = None
        self._leaders: set[int] = set()
        """Brokers to which the client is referred."""

    def read(self) -> bool:
        """Find what can be sent now; True if the request should rather wait for more."""
        self._answers.clear()
        self._readable.clear()
        self._size = 0
        self._conclusive = False
        by_topic = self._manager.by_id if self._version >= TOPIC_IDS_FROM else self._manager.by_name
        for asked in self._context:
            known = by_topic.get(asked.topic)
            partition = known.get(asked.index) if known is not None else None
            try:
                if partition is None:
                    raise self._manager.missing(asked.topic, asked.index)
                answer = self._read_partition(partition, asked)
            except KafkaError as error:
                answer = self._refusal(asked.index, error.code, partition)
            except StorageError as error:
                self._manager.storage_failed(error)
                answer = self._refusal(asked.index, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                assert partition is not None
                self._readable.append(partition)
            if answer[1] != 0 or answer[6] != NOBODY_ELSE or answer[9] is not None:
                self._conclusive = True
            self._answers.append((asked, answer, partition))
        return not self._conclusive and bool(self._readable) and self._size < self._min_bytes

    def _read_partition(self, partition: Partition, asked: FetchedPartition) -> PartitionAnswer[FileSlice]:
        error = partition.check_epoch(asked.current_leader_epoch, self._may_read_follower)
        if error:
            raise KafkaError(error)
        log = partition.log
        if self._version < ZSTD_FROM and log.config.compression_type == "zstd":
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if asked.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
                return self._offsets_only(
                    partition, asked.index, FetchHints(diverging_epoch=(epoch, end_offset))
                )
        limit = max(min(asked.max_bytes, self._max_bytes - self._size), 0)
        committed_only = False
        if self._body.replica_id >= 0:
            read = self._read_for_follower(partition, asked, limit)
        else:
            nearer = NOBODY_ELSE
            if self._body.rack_id:
                nearer = self._whereabouts.nearer_replica(partition, asked.fetch_offset, self._body.rack_id)
            if nearer != NOBODY_ELSE:
                return self._offsets_only(partition, asked.index, None, nearer)
            committed_only = self._body.isolation_level == READ_COMMITTED
            read = partition.read(asked.fetch_offset, limit, committed_only, self._size == 0)
        aborted = None
        if committed_only:
            aborted = []
            if read.slice is not None:
                aborted = [
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in log.aborted_transactions(asked.fetch_offset, log.end_of_read(read))
                ]
        size = 0
        if read.slice is not None:
            size = read.slice.size
            self._size += size
            if read.first_batch_offset < log.active.base_offset:
                # A read covers one segment, and this one grows no more: the rest comes with the next fetch.
                self._conclusive = True
        return (
            asked.index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.start_offset,
            aborted,
            -1,
            read.slice,
            size,
            None,
        )

    def _read_for_follower(self, partition: Partition, asked: FetchedPartition, limit: int) -> LogRead:
        replication = partition.replication
        if replication is None:
            # Nobody but this broker holds a replica, so whoever says so is not believed.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        body = self._body
        follower = replication.follower(body.replica_id, body.replica_epoch)
        read = partition.read_for_follower(asked.fetch_offset, limit, self._size == 0)
        if self._reply is None:
            # Once for each request: what it says was true when it came, not when its wait ends.
            replication.fetched(follower, asked.fetch_offset, asked.log_start_offset, body.replica_epoch)
        if replication.must_wait(follower):
            return EMPTY_READ
        if read.slice is not None:
            replication.sent(follower, read.slice.size)
        return read

    @property
    def _may_read_follower(self) -> bool:
        """Consumers that know of racks also know that a follower may be behind (KIP-392)."""
        return self._body.replica_id < 0 and self._version >= RACKS_FROM

    def _offsets_only(
        self, partition: Partition, index: int, hints: FetchHints | None, nearer_replica: int = NOBODY_ELSE
    ) -> PartitionAnswer[FileSlice]:
        log = partition.log
        return (
            index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.start_offset,
            None,
            nearer_replica,
            None,
            0,
            hints,
        )

    def _refusal(
        self, index: int, code: int, partition: Partition | None = None
    ) -> PartitionAnswer[FileSlice]:
        hints = None
        leader = leader_hint(partition, code)
        if leader is not None:
            self._leaders.add(leader[0])
            hints = FetchHints(current_leader=leader)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_FROM:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return (index, code, -1, -1, -1, None, -1, None, 0, hints)

    def wait(self, reply: Reply) -> None:
        self._reply = reply
        if self._body.replica_id >= 0:
            waiting_in = [each.replication.readers for each in self._readable if each.replication is not None]
        else:
            waiting_in = [each.readers for each in self._readable]
        delayed = DelayedFetch(
            waiting_in,
            self._min_bytes - self._size,
            self._body.isolation_level == READ_COMMITTED,
            self._body.max_wait_ms,
            self._complete,
        )
        reply.on_abandoned = delayed.wake

    def _complete(self) -> None:
        assert self._reply is not None
        if self._reply.abandoned:
            return
        self.read()
        self._reply.send(self.answer())

    def answer(self) -> Sequence[Chunk]:
        context = self._context
        topics: list[tuple[str | bytes, list[PartitionAnswer[FileSlice]]]] = []
        returned: list[FetchedPartition] = []
        for asked, answer, partition in self._answers:
            _, error, high_watermark, _, log_start, _, nearer, _, size, hints = answer
            if partition is not None:
                self._count(partition.traffic, size)
            if error:
                self._count_failure(partition, error)
            if size:
                returned.append(asked)
            if context.must_tell(
                asked, error, size, high_watermark, log_start, hints is not None or nearer != NOBODY_ELSE
            ):
                if not topics or topics[-1][0] != asked.topic:
                    topics.append((asked.topic, []))
                topics[-1][1].append(answer)
        context.rotate(returned)
        out = bytearray(9 if self._version >= FLEXIBLE_FROM else 8)
        chunks, size = encode_fetch_response(
            out,
            self._version,
            topics,
            error_code=context.error,
            session_id=context.session_id,
            node_endpoints=self._whereabouts.endpoints(self._leaders, self._listener_name)
            if self._leaders
            else (),
        )
        _FRAME_HEAD.pack_into(out, 0, size - 4, self._correlation_id)
        if context.error:
            self._stats.failed(context.error)
        self._stats.answered(self._begun_ns)
        return chunks

    def _count(self, traffic: TopicTraffic, size: int) -> None:
        traffic.fetches += 1
        if self._body.replica_id < 0:
            traffic.bytes_out += size
        else:
            traffic.replication_bytes_out += size

    def _count_failure(self, partition: Partition | None, error: int) -> None:
        self._stats.failed(error)
        if partition is not None:
            partition.traffic.failed_fetches += 1
