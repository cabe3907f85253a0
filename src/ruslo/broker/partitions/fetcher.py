"""Follows one leader: fetches what it has for all partitions that this broker replicates from it.

One request is under way at a time. Each asks from the ends of the own logs, which is also the ack of what
came before; the leader holds it back until there is something to send. An answer is appended as it is, and
the next request leaves within the same callback (``fetch_exchange``): the task below is for all that is rare.

What an answer's error means for a partition:

============================================  ============================================================
OFFSET_OUT_OF_RANGE                            ask the leader for its bounds, and begin within them
FENCED_LEADER_EPOCH                            leave it alone; the metadata will name the new leader
CORRUPT_MESSAGE and a batch that fails here    try again, a little later each time
all others (the leader does not know yet that
it leads, its disk has failed, …)              try again, a little later each time
a diverging epoch                              cut the own log where the histories part (KIP-595)
============================================  ============================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.partitions.fetch_exchange import FetchExchange
from ruslo.broker.partitions.replication_quota import ReplicationQuota, is_throttled
from ruslo.machines.replica.fetch_plan import FetchPlan, Place, Wanted
from ruslo.machines.replica.truncation import truncation_offset
from ruslo.model.buffers import ReadBuffer
from ruslo.model.clock import Clock
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid
from ruslo.model.log_ids import log_ids
from ruslo.net.channel import Connection, ConnectionSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.replica_fetch_codec import (
    MIN_VERSION,
    NO_DIVERGENCE,
    PartitionNews,
    ReplicaWish,
    decode_replica_answer,
    encode_replica_fetch,
)

if TYPE_CHECKING:
    from ruslo.broker.partitions.partition import Partition
    from ruslo.storage.log import Log

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 20
_BELIEVED_LOST_MS = 10_000
_EARLIEST_LOCAL = -4
_LATEST = -1
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
    max_pause_ms: int
    """``replica.fetch.backoff.ms``: pauses after errors grow up to this."""
    connection: ConnectionSettings
    quota: ReplicationQuota
    storage_failed: Callable[[StorageError], None]
    logs_cut: Callable[[Sequence[Log]], None]
    """Told of logs that were cut before anything is appended to them. Raises StorageError."""


class Address(NamedTuple):
    host: str
    port: int


class _Followed:
    """A partition that is followed, in one epoch of its leader."""

    __slots__ = ("first_request", "leader_epoch", "partition", "pause_ms", "timer", "waits_for_quota")

    def __init__(self, partition: Partition, first_request: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.first_request = first_request
        """The number of the first request that can ask for it; earlier answers are not about this epoch."""
        self.pause_ms = _FIRST_PAUSE_MS
        self.timer: asyncio.TimerHandle | None = None
        """While it is left alone."""
        self.waits_for_quota = False
        """The timer is that of the replication throttle."""


class ReplicaFetcher:
    def __init__(
        self, leader_id: int, address: Callable[[int], Address | None], settings: FetcherSettings
    ) -> None:
        self.leader_id = leader_id
        self._address = address
        self._settings = settings
        self._plan = FetchPlan()
        self._followed: dict[Place, _Followed] = {}
        self._something_to_do = asyncio.Event()
        self._connection: Connection | None = None
        self._requests = 0
        """Sent so far."""
        self._out_of_range: list[_Followed] = []
        """Of the last answer."""
        self._cut: list[Log] = []
        """By the answer under way."""
        self._syncing: set[Place] = set()
        """Appended, but nothing may be asked for from there before it is on the disk."""
        self._all_synced = asyncio.Event()
        self._lost_since_ms: int | None = None
        """When the leader's process closed the connection, or its host first said that nobody listens there;
        None once it was reached again."""
        self._pause_ms = _FIRST_PAUSE_MS
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"replica fetcher of broker {leader_id}"
        )

    def __len__(self) -> int:
        return len(self._followed)

    def leader_is_lost(self) -> bool:
        """Its process has just closed the connection and has not been reached since.

        Silence is no sign. Nor is what lasts: the controller has another leader elected by then, or knows
        that this one is alive and only refuses this broker.
        """
        if self._lost_since_ms is None:
            # A client that has lost the same leader asks at once. On a busy machine its question is found
            # together with the news, so that waiting for the turn of the latter would be too late.
            return self._connection is not None and self._connection.hung_up()
        return self._settings.clock.monotonic_ms() - self._lost_since_ms < _BELIEVED_LOST_MS

    def follow(self, partition: Partition) -> None:
        """Begin at the end of its log, or go on in a new epoch of the same leader."""
        place = (partition.topic_id, partition.index)
        self.leave(place)
        followed = self._followed[place] = _Followed(partition, self._requests + 1)
        self._want_when_synced(place, followed)

    def leave(self, place: Place) -> None:
        followed = self._followed.pop(place, None)
        if followed is not None and followed.timer is not None:
            followed.timer.cancel()
        self._plan.drop(place)
        self._stop_waiting_for(place)

    def throttle_changed(self, place: Place) -> None:
        """The allowed rate or the list of throttled replicas changed: a pause may be shorter or over."""
        followed = self._followed.get(place)
        if followed is not None and followed.waits_for_quota:
            assert followed.timer is not None
            followed.timer.cancel()
            self._fetch_within_quota(place, followed)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for followed in self._followed.values():
            if followed.timer is not None:
                followed.timer.cancel()

    # -- the loop --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._something_to_do.wait()
                if not len(self._plan):
                    self._something_to_do.clear()
                    continue
                try:
                    await self._fetch()
                except Exception as error:
                    # Whatever it is: a fetcher that ends would take its partitions out of replication.
                    unforeseen = None if isinstance(error, KafkaError) else error
                    level = logging.INFO if unforeseen is None else logging.ERROR
                    logger.log(
                        level, "fetching from broker %d: %s", self.leader_id, error, exc_info=unforeseen
                    )
                    self._plan.restart()
                    await asyncio.sleep(self._pause_ms / 1000)
                    self._pause_ms = min(self._pause_ms * 2, self._settings.max_pause_ms)
        finally:
            if self._connection is not None:
                await self._connection.close()

    async def _fetch(self) -> None:
        """Fetch as long as nothing but answers has to be dealt with."""
        connection = await self._connected()
        self._out_of_range.clear()
        await FetchExchange(
            connection,
            connection.version_for(FetchRequest, MIN_VERSION),
            self._settings.connection.request_timeout_ms,
            self._next_request,
            self._take_answer,
        ).run()
        for followed in self._out_of_range:
            await self._find_bounds(connection, followed)
        if self._syncing:
            # A request without them would be held back by the leader for as long as it has nothing else to
            # send, and the producers that wait for these partitions with it.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.max_wait_ms / 1000):
                    await self._all_synced.wait()
            self._syncing.clear()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            address = self._address(self.leader_id)
            if address is None:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE,
                    f"broker {self.leader_id} has no address for other brokers",
                )
            self._plan.restart()
            if self._connection is not None and self._connection.lost:
                self._note_loss()
            try:
                self._connection = await Connection.open(*address, self._settings.connection)
            except KafkaError as error:
                self._connection = None
                if isinstance(error, BrokerUnreachable) and error.refused:
                    self._note_loss()
                elif not isinstance(error, ConnectionLost):
                    # It, or its host, is silent. What is accepted and then closed is no news, however: the
                    # listener of a process that dies may be closed after its connections.
                    self._lost_since_ms = None
                raise
            self._lost_since_ms = None
        return self._connection

    def _note_loss(self) -> None:
        if self._lost_since_ms is None:
            self._lost_since_ms = self._settings.clock.monotonic_ms()

    def _next_request(self, out: bytearray) -> None:
        settings = self._settings
        self._requests += 1
        planned = self._plan.next()
        topics: dict[Uuid, list[ReplicaWish]] = {}
        for (topic_id, index), wanted in planned.listed:
            topics.setdefault(topic_id, []).append((index, *wanted, settings.max_partition_bytes))
        forgotten: dict[Uuid, list[int]] = {}
        for topic_id, index in planned.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        encode_replica_fetch(
            out,
            replica_id=settings.node_id,
            replica_epoch=settings.broker_epoch(),
            max_wait_ms=0 if planned.is_partial else settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=planned.session_id,
            session_epoch=planned.session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
        )

    def _want(self, place: Place, followed: _Followed) -> None:
        log = followed.partition.log
        self._plan.want(
            place,
            Wanted(followed.leader_epoch, log.end_offset, log.epochs.latest, log.start_offset),
        )
        self._something_to_do.set()

    # -- answers ---------------------------------------------------------------------------------------------

    def _take_answer(self, frame: ReadBuffer, pos: int) -> bool:
        """Append what came; whether the next request may follow at once."""
        answer = decode_replica_answer(frame, pos, len(frame))
        if answer.error_code:
            error = ErrorCode(answer.error_code)
            if error not in _SESSION_ERRORS:
                raise KafkaError(error)
            self._plan.restart()
            return True
        self._plan.answered(answer.session_id)
        self._pause_ms = _FIRST_PAUSE_MS
        for news in answer.partitions:
            place = news[:2]
            followed = self._followed.get(place)
            # It may have been left, or be in another epoch, since the request was sent: to be fenced in
            # the epoch before must not take it out of replication in the present one.
            if followed is None or followed.first_request > self._requests or place not in self._plan:
                continue
            if news[2] == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range.append(followed)
            else:
                self._take(place, followed, news, frame)
        if self._cut:
            self._tell_of_cuts()
        return not self._out_of_range and not self._syncing and len(self._plan) > 0

    def _take(self, place: Place, followed: _Followed, news: PartitionNews, frame: ReadBuffer) -> None:
        _, _, error_code, high_watermark, log_start, diverging, start, stop = news
        partition = followed.partition
        try:
            if error_code:
                raise KafkaError(ErrorCode(error_code))
            if diverging != NO_DIVERGENCE:
                self._truncate(partition, *diverging)
            else:
                if stop > start:
                    before = partition.log.end_offset
                    if self._is_throttled(partition):
                        self._settings.quota.record(stop - start)
                    partition.append_as_follower(memoryview(frame)[start:stop], self._settings.clock.now_ms())
                    if partition.log.end_offset == before:
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the leader sent no whole batch")
                partition.hear_from_leader(high_watermark, log_start, stop - start)
        except (KafkaError, CorruptLogError) as error:
            self._leave_alone(place, followed, error)
        except StorageError as error:
            self._settings.storage_failed(error)
            self._leave_alone(place, followed, error)
        else:
            followed.pause_ms = _FIRST_PAUSE_MS
            # As in Kafka, a replica that has all that is committed is not held back.
            lags = partition.log.end_offset < high_watermark
            pause_ms = self._quota_pause_ms(partition) if lags else 0
            if pause_ms:
                self._plan.drop(place)
                self._wait_for_quota(place, followed, pause_ms)
            elif partition.sync_as_follower(partial(self._synced, place, followed)):
                self._plan.drop(place)
                self._syncing.add(place)
                self._all_synced.clear()
            else:
                self._want(place, followed)

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(throttled, partition.index, self._settings.node_id)

    def _quota_pause_ms(self, partition: Partition) -> int:
        return self._settings.quota.pause_ms() if self._is_throttled(partition) else 0

    def _wait_for_quota(self, place: Place, followed: _Followed, pause_ms: int) -> None:
        followed.waits_for_quota = True
        followed.timer = asyncio.get_running_loop().call_later(
            pause_ms / 1000, self._fetch_within_quota, place, followed
        )

    def _fetch_within_quota(self, place: Place, followed: _Followed) -> None:
        """Fetch it again, unless the quota was used up by other partitions meanwhile."""
        pause_ms = self._quota_pause_ms(followed.partition)
        if pause_ms:
            self._wait_for_quota(place, followed, pause_ms)
        else:
            followed.waits_for_quota = False
            self._try_again(place, followed)

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        log = partition.log
        offset = truncation_offset(log.epochs, log.end_offset, epoch, end_offset)
        logger.info(
            "the leader's log parts from this one at epoch %d; cut from %d back to %d",
            epoch,
            log.end_offset,
            offset,
            extra=log_ids(partition=partition),
        )
        log.truncate_to(offset)
        self._cut.append(log)

    def _tell_of_cuts(self) -> None:
        """Of all partitions at once: it may take a sync."""
        cut, self._cut = self._cut, []
        try:
            self._settings.logs_cut(cut)
        except StorageError as error:
            self._settings.storage_failed(error)

    def _leave_alone(self, place: Place, followed: _Followed, error: Exception) -> None:
        self._plan.drop(place)
        fenced = isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_LEADER_EPOCH
        logger.info(
            "fetching from broker %d: %s%s",
            self.leader_id,
            error,
            "" if fenced else f"; again in {followed.pause_ms} ms",
            extra=log_ids(partition=followed.partition),
        )
        if not fenced:
            self._schedule(place, followed, followed.pause_ms)
            followed.pause_ms = min(followed.pause_ms * 2, self._settings.max_pause_ms)

    def _schedule(self, place: Place, followed: _Followed, pause_ms: int) -> None:
        followed.timer = asyncio.get_running_loop().call_later(
            pause_ms / 1000, self._try_again, place, followed
        )

    def _try_again(self, place: Place, followed: _Followed) -> None:
        followed.timer = None
        if self._followed.get(place) is followed and not followed.partition.gone:
            self._want_when_synced(place, followed)

    def _want_when_synced(self, place: Place, followed: _Followed) -> None:
        """What came from the leader before, or in another epoch, or before a pause, may not be synced yet."""
        if not followed.partition.sync_as_follower(partial(self._try_again, place, followed)):
            self._want(place, followed)

    def _synced(self, place: Place, followed: _Followed) -> None:
        self._try_again(place, followed)
        self._stop_waiting_for(place)

    def _stop_waiting_for(self, place: Place) -> None:
        self._syncing.discard(place)
        if not self._syncing:
            self._all_synced.set()

    async def _find_bounds(self, connection: Connection, followed: _Followed) -> None:
        """The own end lies outside the leader's log: it was cut at the front meanwhile, or is shorter."""
        partition = followed.partition
        place = (partition.topic_id, partition.index)
        try:
            leader_start = await self._leader_offset(connection, followed, _EARLIEST_LOCAL)
            leader_end = await self._leader_offset(connection, followed, _LATEST)
            if self._followed.get(place) is not followed:
                return
            log = partition.log
            logger.warning(
                "the log ends at %d, its leader has %d to %d",
                log.end_offset,
                leader_start,
                leader_end,
                extra=log_ids(partition=partition),
            )
            if leader_end < log.end_offset:
                log.truncate_to(leader_end)
            elif leader_start > log.end_offset:
                log.truncate_fully_and_start_at(leader_start)
            self._settings.logs_cut([log])
        except StorageError as error:
            self._settings.storage_failed(error)
            self._leave_alone(place, followed, error)
        except KafkaError as error:
            if connection.closed:
                raise
            self._leave_alone(place, followed, error)
        else:
            self._want(place, followed)

    async def _leader_offset(self, connection: Connection, followed: _Followed, where: int) -> int:
        partition = followed.partition
        request = ListOffsetsRequest(
            replica_id=self._settings.node_id,
            topics=[
                ListOffsetsTopic(
                    name=partition.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition.index,
                            current_leader_epoch=followed.leader_epoch,
                            timestamp=where,
                        )
                    ],
                )
            ],
        )
        response = await connection.request(request, ListOffsetsResponse)
        (answer,) = response.topics[0].partitions
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return answer.offset
