"""One Fetch request of a consumer: read, possibly wait and read again, respond.

Reading only finds the positions of the bytes; they travel from the page cache to the socket when the
connection has room for them. A fetch that finds less than ``min_bytes`` waits in purgatory and then reads
everything again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruslo.broker.handlers.topic_access import may_read
from ruslo.broker.partitions.leader_hints import broker_endpoints, leader_hint
from ruslo.broker.partitions.preferred_read_replica import NO_PREFERRED_REPLICA
from ruslo.broker.partitions.purgatory import DelayedFetch, DelayedFetches
from ruslo.broker.requests.access import OPEN, Access
from ruslo.machines.fetch_session import CachedPartition, FetchContext
from ruslo.machines.quota import NO_METERS
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.fetch_codec import FetchBody, FetchedPartition, FetchHints, encode_fetch_response
from ruslo.storage.disk import FileSlice
from ruslo.storage.log_reader import EMPTY_READ, LogRead

if TYPE_CHECKING:
    from ruslo.broker.counters.traffic import TopicTraffic
    from ruslo.broker.handlers.fetch import FetchHandler
    from ruslo.broker.partitions.partition import Partition
    from ruslo.broker.requests.session import ClientSession
    from ruslo.net.connection import Connection
    from ruslo.net.pending_response import PendingResponse
    from ruslo.net.send_queue import Chunk
    from ruslo.protocol.leader_hints import NodeEndpoint

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
ZSTD_FROM = 10
RACKS_FROM = 11
STORAGE_ERROR_FROM = 6
READ_COMMITTED = 1

_FRAME_HEAD = struct.Struct(">ii")


@dataclass(slots=True, eq=False)
class ConsumerFetch:
    _handler: FetchHandler
    _connection: Connection
    _body: FetchBody
    _context: FetchContext
    _version: int
    _correlation_id: int
    _begun_ns: int
    _max_bytes: int
    _min_bytes: int
    _access: Access
    _results: list[tuple[CachedPartition, FetchedPartition[FileSlice], Partition | None]] = field(
        default_factory=list
    )
    _readable: list[Partition] = field(default_factory=list)
    _size: int = 0
    _responds_at_once: bool = False
    """Waiting would not change the response, or must not delay it."""
    _reply: PendingResponse | None = None
    _busy_before_ns: int = 0
    """The time that the request took before it waited."""
    _resumed_ns: int = 0
    """When the wait ended; 0 without one."""
    _leaders: set[int] = field(default_factory=set)
    """Brokers that the response names as leaders."""

    def read(self) -> bool:
        """Find what can be sent now; returns whether the request should wait for more."""
        self._results.clear()
        self._readable.clear()
        self._size = 0
        self._responds_at_once = False
        partitions = self._handler.partitions
        by_topic = partitions.by_id if self._version >= TOPIC_IDS_FROM else partitions.by_name
        access = self._access
        guarded, readable = access is not OPEN, access.readable
        for fetch in self._context:
            if (
                guarded
                and fetch.topic not in readable
                and not may_read(access, fetch.topic, self._handler.metadata)
            ):
                self._deny(fetch)
                continue
            known = by_topic.get(fetch.topic)
            self._add_result(fetch, known.get(fetch.index) if known is not None else None)
        return self._should_wait()

    def _deny(self, fetch: CachedPartition) -> None:
        self._responds_at_once = True
        result = self._error_result(fetch.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self._results.append((fetch, result, None))

    def _should_wait(self) -> bool:
        return not self._responds_at_once and bool(self._readable) and self._size < self._min_bytes

    def _add_result(self, fetch: CachedPartition, partition: Partition | None) -> None:
        """Find what can be sent now from one partition."""
        try:
            if partition is None:
                raise self._handler.partitions.missing(fetch.topic, fetch.index)
            result = self._read_partition(partition, fetch)
        except KafkaError as error:
            result = self._error_result(fetch.index, error.code, partition)
        except StorageError as error:
            self._handler.partitions.storage_failed(error)
            result = self._error_result(fetch.index, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            assert partition is not None
            self._readable.append(partition)
        if result[1] != 0 or result[6] != NO_PREFERRED_REPLICA or result[9] is not None:
            self._responds_at_once = True
        self._results.append((fetch, result, partition))

    def _read_partition(self, partition: Partition, fetch: CachedPartition) -> FetchedPartition[FileSlice]:
        error = partition.check_epoch(fetch.current_leader_epoch, self._may_read_follower)
        if error:
            raise KafkaError(error)
        log = partition.log
        if self._version < ZSTD_FROM and log.config.compression_type == "zstd":
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if fetch.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(fetch.last_fetched_epoch)
            if epoch < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset:
                hints = FetchHints(diverging_epoch=(epoch, end_offset))
                return self._result(partition, fetch.index, hints=hints)
        limit = max(min(fetch.max_bytes, self._max_bytes - self._size), 0)
        return self._read_records(partition, fetch, limit)

    def _read_records(
        self, partition: Partition, fetch: CachedPartition, limit: int
    ) -> FetchedPartition[FileSlice]:
        if self._body.rack_id:
            preferred = self._handler.selector.preferred_read_replica(
                partition, fetch.fetch_offset, self._body.rack_id
            )
            if preferred != NO_PREFERRED_REPLICA:
                return self._result(partition, fetch.index, preferred_read_replica=preferred)
        committed_only = self._body.isolation_level == READ_COMMITTED
        read = partition.read(fetch.fetch_offset, limit, committed_only, self._size == 0)
        aborted = None
        if committed_only:
            aborted = []
            if read.slice is not None:
                log = partition.log
                aborted = [
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in log.aborted_transactions(fetch.fetch_offset, log.end_of_read(read))
                ]
        return self._result(partition, fetch.index, read, aborted)

    def _result(
        self,
        partition: Partition,
        index: int,
        read: LogRead = EMPTY_READ,
        aborted: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = NO_PREFERRED_REPLICA,
        hints: FetchHints | None = None,
    ) -> FetchedPartition[FileSlice]:
        log = partition.log
        size = 0
        if read.slice is not None:
            size = read.slice.size
            self._size += size
            if read.first_batch_offset < log.active.base_offset:
                # A read covers one segment. This one is closed: the rest comes with the next fetch.
                self._responds_at_once = True
        return (
            index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.start_offset,
            aborted,
            preferred_read_replica,
            read.slice,
            size,
            hints,
        )

    @property
    def _may_read_follower(self) -> bool:
        """Consumers that send a rack id also handle a follower that lags (KIP-392)."""
        return self._version >= RACKS_FROM

    def _error_result(
        self, index: int, code: int, partition: Partition | None = None
    ) -> FetchedPartition[FileSlice]:
        hints = None
        leader = leader_hint(partition, code)
        if leader is not None:
            self._leaders.add(leader[0])
            hints = FetchHints(current_leader=leader)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_FROM:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return (index, code, -1, -1, -1, None, NO_PREFERRED_REPLICA, None, 0, hints)

    def wait(self, reply: PendingResponse) -> None:
        self._reply = reply
        self._busy_before_ns = self._busy_ns()
        delayed = DelayedFetch(
            self._delayed_fetches(),
            self._min_bytes - self._size,
            self._body.isolation_level == READ_COMMITTED,
            self._body.max_wait_ms,
            self._complete,
        )
        reply.on_abandoned = delayed.wake

    def _delayed_fetches(self) -> list[DelayedFetches]:
        return [each.delayed_fetches for each in self._readable]

    def _complete(self) -> None:
        assert self._reply is not None
        if self._reply.abandoned:
            return
        self._resumed_ns = self._handler.stats.now_ns()
        self.read()
        self._reply.send(self.response())

    def response(self) -> Sequence[Chunk]:
        throttle_ms = self._throttle_ms()
        if throttle_ms:
            return self._throttled(throttle_ms)
        context = self._context
        topics: list[tuple[str | bytes, list[FetchedPartition[FileSlice]]]] = []
        returned: list[CachedPartition] = []
        for fetch, result, partition in self._results:
            _, error, high_watermark, _, log_start, _, preferred, _, size, hints = result
            if partition is not None:
                self._count(partition.traffic, size)
            if error:
                self._handler.stats.record_error(error)
                if partition is not None:
                    partition.traffic.failed_fetches += 1
            if size:
                returned.append(fetch)
            extra = hints is not None or preferred != NO_PREFERRED_REPLICA
            if context.must_include(fetch, error, size, high_watermark, log_start, extra):
                if not topics or topics[-1][0] != fetch.topic:
                    topics.append((fetch.topic, []))
                topics[-1][1].append(result)
        context.rotate(returned)
        out = bytearray(9 if self._version >= FLEXIBLE_FROM else 8)
        chunks, size = encode_fetch_response(
            out,
            self._version,
            topics,
            error_code=context.error,
            session_id=context.session_id,
            node_endpoints=self._leader_endpoints() if self._leaders else (),
        )
        _FRAME_HEAD.pack_into(out, 0, size - 4, self._correlation_id)
        if context.error:
            self._handler.stats.record_error(context.error)
        self._handler.stats.record_response(self._begun_ns)
        return chunks

    def _throttle_ms(self) -> int:
        session: ClientSession = self._connection.session
        meters = session.meters
        if meters is NO_METERS:
            return 0
        # A client that must wait gets an empty response, and fetches the same records again.
        return session.admit_ms(meters.fetch, self._size, self._busy_ns(), self._handler.clock.monotonic_ms())

    def _busy_ns(self) -> int:
        """How long the request kept the event loop busy; a fetch that waits does not."""
        return self._busy_before_ns + self._handler.stats.now_ns() - (self._resumed_ns or self._begun_ns)

    def _throttled(self, throttle_ms: int) -> Sequence[Chunk]:
        out = bytearray(9 if self._version >= FLEXIBLE_FROM else 8)
        chunks, size = encode_fetch_response(
            out,
            self._version,
            (),
            throttle_time_ms=throttle_ms,
            error_code=self._context.error,
            session_id=self._context.session_id,
        )
        _FRAME_HEAD.pack_into(out, 0, size - 4, self._correlation_id)
        self._handler.stats.record_response(self._begun_ns)
        self._connection.mute(throttle_ms)
        return chunks

    def _leader_endpoints(self) -> Sequence[NodeEndpoint]:
        return broker_endpoints(self._handler.metadata, self._leaders, self._connection.listener_name)

    def _count(self, traffic: TopicTraffic, size: int) -> None:
        traffic.fetches += 1
        traffic.bytes_out += size
