"""Follows one leader: fetches the records of all partitions that this broker replicates from it.

One request is in flight at a time. It fetches from the log ends of the own replicas, which acknowledges all
records before them; the leader delays its response until it has something to send. Records are appended
unchanged, and the next request is sent from the same callback (``fetch_exchange``). The task below handles
everything that is rare.

What a partition's part of a response means:

============================================  ============================================================
OFFSET_OUT_OF_RANGE                            query the leader's offsets, and continue within them
FENCED_LEADER_EPOCH                            stop fetching it; the metadata will name the new leader
CORRUPT_MESSAGE, a batch that is invalid here  retry with an increasing backoff
all other errors (the leader does not know
yet that it leads, its disk has failed, …)     retry with an increasing backoff
a diverging epoch                              truncate the log where it diverges (KIP-595)
============================================  ============================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ruslo.broker.partitions.fetch_exchange import FetchExchange
from ruslo.broker.partitions.leader_connection import (
    EARLIEST_LOCAL,
    LATEST,
    Address,
    LeaderConnection,
    fetch_leader_offset,
)
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication_quota import ReplicationQuota, is_throttled
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.machines.replica.fetch_session_handler import (
    FetchSessionHandler,
    PartitionFetch,
    TopicIdPartition,
)
from ruslo.machines.replica.truncation import truncation_offset
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid
from ruslo.model.log_ids import log_ids
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.replica_fetch_codec import (
    MIN_VERSION,
    NO_DIVERGENCE,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
    decode_replica_fetch_response,
    encode_replica_fetch_request,
)
from ruslo.storage.log import Log

logger = logging.getLogger(__name__)

_MIN_BACKOFF_MS = 20
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    node_id: int
    broker_epoch: Callable[[], int]
    clock: Clock
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    max_backoff_ms: int
    """``replica.fetch.backoff.ms``: the limit of the backoff after errors."""
    connection: ChannelSettings
    quota: ReplicationQuota
    storage_failed: Callable[[StorageError], None]
    on_truncated: Callable[[Sequence[Log]], None]
    """Called with truncated logs before anything is appended to them. Raises StorageError."""


class _FollowedPartition:
    """A partition that is followed, in one leader epoch."""

    __slots__ = ("backoff_ms", "first_request", "leader_epoch", "partition", "timer", "tp", "waits_for_quota")

    def __init__(self, partition: Partition, first_request: int) -> None:
        self.partition = partition
        self.tp: TopicIdPartition = (partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.first_request = first_request
        """The number of the first request that can list it; earlier responses concern other epochs."""
        self.backoff_ms = _MIN_BACKOFF_MS
        self.timer: asyncio.TimerHandle | None = None
        """Set while the partition is not fetched."""
        self.waits_for_quota = False
        """The timer is that of the replication throttle."""


class ReplicaFetcher:
    def __init__(
        self, leader_id: int, address: Callable[[int], Address | None], settings: FetcherSettings
    ) -> None:
        self.leader_id = leader_id
        self._settings = settings
        self.connection = LeaderConnection(leader_id, address, settings.connection, settings.clock)
        self._session = FetchSessionHandler()
        self._followed: dict[TopicIdPartition, _FollowedPartition] = {}
        self._has_partitions = asyncio.Event()
        self._requests = 0
        """The number of requests sent."""
        self._out_of_range: list[_FollowedPartition] = []
        """Partitions whose fetch offset the last response rejected."""
        self._truncated: list[Log] = []
        """Logs that the present response has truncated."""
        self._syncing: set[TopicIdPartition] = set()
        """Partitions with appended records that must be synced before the next fetch."""
        self._all_synced = asyncio.Event()
        self._backoff_ms = _MIN_BACKOFF_MS
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"replica fetcher of broker {leader_id}"
        )

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        """Fetch from the end of its log, or continue in a new epoch of the same leader."""
        followed = _FollowedPartition(partition, self._requests + 1)
        self.unfollow(followed.tp)
        self._followed[followed.tp] = followed
        self._fetch_when_synced(followed)

    def unfollow(self, tp: TopicIdPartition) -> None:
        followed = self._followed.pop(tp, None)
        if followed is not None and followed.timer is not None:
            followed.timer.cancel()
        self._session.remove(tp)
        self._stop_waiting_for(tp)

    def throttle_changed(self, tp: TopicIdPartition) -> None:
        """The rate or the list of throttled replicas changed: the pause may be shorter or over."""
        followed = self._followed.get(tp)
        if followed is not None and followed.waits_for_quota:
            assert followed.timer is not None
            followed.timer.cancel()
            self._fetch_within_quota(followed)

    async def stop(self) -> None:
        await cancel_all(self._task)
        for followed in self._followed.values():
            if followed.timer is not None:
                followed.timer.cancel()

    # -- requests --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._has_partitions.wait()
                if not len(self._session):
                    self._has_partitions.clear()
                    continue
                try:
                    await self._fetch()
                except Exception as error:
                    # A fetcher that ended would stop the replication of all its partitions.
                    unexpected = None if isinstance(error, KafkaError) else error
                    level = logging.INFO if unexpected is None else logging.ERROR
                    logger.log(
                        level,
                        "Fetch from leader %d failed: %s",
                        self.leader_id,
                        error,
                        exc_info=unexpected,
                    )
                    self._session.reset()
                    await asyncio.sleep(self._backoff_ms / 1000)
                    self._backoff_ms = min(self._backoff_ms * 2, self._settings.max_backoff_ms)
        finally:
            await self.connection.close()

    async def _fetch(self) -> None:
        """Fetch until something other than the next response has to be handled."""
        if not self.connection.is_open:
            self._session.reset()
        connection = await self.connection.open()
        self._out_of_range.clear()
        await FetchExchange(
            connection,
            connection.version_for(FetchRequest, MIN_VERSION),
            self._settings.connection.request_timeout_ms,
            self._write_request,
            self._on_response,
        ).run()
        for followed in self._out_of_range:
            await self._continue_within_range(connection, followed)
        if self._syncing:
            # The leader would delay a request without these partitions until it has other records to send,
            # and with it the acks of the producers that wait for them.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.max_wait_ms / 1000):
                    await self._all_synced.wait()
            self._syncing.clear()

    def _write_request(self, out: bytearray) -> None:
        settings = self._settings
        self._requests += 1
        request = self._session.next_request()
        topics: dict[Uuid, list[ReplicaPartitionFetch]] = {}
        for (topic_id, index), fetch in request.listed:
            topics.setdefault(topic_id, []).append((index, *fetch, settings.max_partition_bytes))
        forgotten: dict[Uuid, list[int]] = {}
        for topic_id, index in request.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        encode_replica_fetch_request(
            out,
            replica_id=settings.node_id,
            replica_epoch=settings.broker_epoch(),
            max_wait_ms=0 if request.is_partial else settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
        )

    def _add_to_session(self, followed: _FollowedPartition) -> None:
        log = followed.partition.log
        fetch = PartitionFetch(followed.leader_epoch, log.end_offset, log.epochs.latest, log.start_offset)
        self._session.add(followed.tp, fetch)
        self._has_partitions.set()

    # -- responses -------------------------------------------------------------------------------------------

    def _on_response(self, frame: ReadBuffer, pos: int) -> bool:
        """Append the records; returns whether the next request may follow at once."""
        response = decode_replica_fetch_response(frame, pos, len(frame))
        if response.error_code:
            error = ErrorCode(response.error_code)
            if error not in _SESSION_ERRORS:
                raise KafkaError(error)
            self._session.reset()
            return True
        self._session.on_response(response.session_id)
        self._backoff_ms = _MIN_BACKOFF_MS
        for data in response.partitions:
            tp = data[:2]
            followed = self._followed.get(tp)
            # Since the request was sent the partition may have been removed or have entered another epoch. An
            # error for the previous epoch must not stop its replication in the present one.
            if followed is None or followed.first_request > self._requests or tp not in self._session:
                continue
            if data[2] == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range.append(followed)
            else:
                self._on_partition_data(followed, data, frame)
        if self._truncated:
            # All logs together: it may take a sync.
            truncated, self._truncated = self._truncated, []
            try:
                self._settings.on_truncated(truncated)
            except StorageError as error:
                self._settings.storage_failed(error)
        return not self._out_of_range and not self._syncing and len(self._session) > 0

    def _on_partition_data(
        self, followed: _FollowedPartition, data: ReplicaPartitionData, frame: ReadBuffer
    ) -> None:
        _, _, error_code, high_watermark, log_start, diverging, start, stop = data
        partition = followed.partition
        follower = partition.follower
        try:
            if error_code:
                raise KafkaError(ErrorCode(error_code))
            if diverging != NO_DIVERGENCE:
                self._truncate(partition, *diverging)
            else:
                if stop > start:
                    end_before = partition.log.end_offset
                    if self._is_throttled(partition):
                        self._settings.quota.record(stop - start)
                    records = memoryview(frame)[start:stop]
                    follower.append(records, followed.leader_epoch, self._settings.clock.now_ms())
                    if partition.log.end_offset == end_before:
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the leader sent no whole batch")
                follower.on_leader_offsets(high_watermark, log_start, stop - start)
        except (KafkaError, StorageError) as error:
            if isinstance(error, StorageError) and not isinstance(error, CorruptLogError):
                self._settings.storage_failed(error)
            self._back_off(followed, error)
        else:
            followed.backoff_ms = _MIN_BACKOFF_MS
            # As in Kafka, a replica that has everything that is committed is not throttled.
            if partition.log.end_offset < high_watermark and self._quota_pause_ms(partition):
                self._session.remove(followed.tp)
                self._fetch_within_quota(followed)
            elif follower.sync_before_fetch(partial(self._on_synced, followed)):
                self._session.remove(followed.tp)
                self._syncing.add(followed.tp)
                self._all_synced.clear()
            else:
                self._add_to_session(followed)

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        log = partition.log
        offset = truncation_offset(log.epochs, log.end_offset, epoch, end_offset)
        logger.info(
            "Truncated %s from offset %d to %d: it diverged from leader %d at epoch %d.",
            partition,
            log.end_offset,
            offset,
            self.leader_id,
            epoch,
            extra=log_ids(partition=partition),
        )
        log.truncate_to(offset)
        self._truncated.append(log)

    # -- throttle, backoff and syncs -------------------------------------------------------------------------

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(throttled, partition.index, self._settings.node_id)

    def _quota_pause_ms(self, partition: Partition) -> int:
        return self._settings.quota.pause_ms() if self._is_throttled(partition) else 0

    def _fetch_within_quota(self, followed: _FollowedPartition) -> None:
        """Fetch the partition again when the quota allows it; other partitions may use it up first."""
        pause_ms = self._quota_pause_ms(followed.partition)
        followed.waits_for_quota = pause_ms > 0
        if pause_ms:
            followed.timer = asyncio.get_running_loop().call_later(
                pause_ms / 1000, self._fetch_within_quota, followed
            )
        else:
            self._fetch_again(followed)

    def _back_off(self, followed: _FollowedPartition, error: Exception) -> None:
        self._session.remove(followed.tp)
        fenced = isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_LEADER_EPOCH
        logger.info(
            "Fetch of %s from leader %d failed: %s%s",
            followed.partition,
            self.leader_id,
            error,
            "" if fenced else f"; retry in {followed.backoff_ms} ms",
            extra=log_ids(partition=followed.partition),
        )
        if not fenced:
            followed.timer = asyncio.get_running_loop().call_later(
                followed.backoff_ms / 1000, self._fetch_again, followed
            )
            followed.backoff_ms = min(followed.backoff_ms * 2, self._settings.max_backoff_ms)

    def _fetch_again(self, followed: _FollowedPartition) -> None:
        followed.timer = None
        if self._followed.get(followed.tp) is followed and not followed.partition.gone:
            self._fetch_when_synced(followed)

    def _fetch_when_synced(self, followed: _FollowedPartition) -> None:
        """Records of an earlier epoch, or from before a pause, may not be synced yet."""
        if not followed.partition.follower.sync_before_fetch(partial(self._fetch_again, followed)):
            self._add_to_session(followed)

    def _on_synced(self, followed: _FollowedPartition) -> None:
        self._fetch_again(followed)
        self._stop_waiting_for(followed.tp)

    def _stop_waiting_for(self, tp: TopicIdPartition) -> None:
        self._syncing.discard(tp)
        if not self._syncing:
            self._all_synced.set()

    # -- out of range ----------------------------------------------------------------------------------------

    async def _continue_within_range(self, connection: Channel, followed: _FollowedPartition) -> None:
        """The own log end lies outside the leader's log, which has deleted older records or is shorter."""
        partition = followed.partition
        try:
            leader_offset = partial(
                fetch_leader_offset, connection, self._settings.node_id, partition, followed.leader_epoch
            )
            leader_start = await leader_offset(EARLIEST_LOCAL)
            leader_end = await leader_offset(LATEST)
            if self._followed.get(followed.tp) is not followed:
                return
            log = partition.log
            logger.warning(
                "%s ends at offset %d, out of range of leader %d, which has offsets %d to %d.",
                partition,
                log.end_offset,
                self.leader_id,
                leader_start,
                leader_end,
                extra=log_ids(partition=partition),
            )
            if leader_end < log.end_offset:
                log.truncate_to(leader_end)
            elif leader_start > log.end_offset:
                log.truncate_fully_and_start_at(leader_start)
            self._settings.on_truncated([log])
        except StorageError as error:
            self._settings.storage_failed(error)
            self._back_off(followed, error)
        except KafkaError as error:
            if connection.closed:
                raise
            self._back_off(followed, error)
        else:
            self._add_to_session(followed)
