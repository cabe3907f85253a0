"""A Fetch that another broker sends for its replicas.

It may have all that is in a log, what is not committed too; and where it asks from is the ack of what lies
before. That makes it half of every replicated produce, while most partitions of its session are quiet at any
moment: of those that have nothing new no more is found out than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ruslo.broker.handlers.fetch_walk import TOPIC_IDS_FROM, Fetch
from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.machines.fetch_session import UNKNOWN_OFFSET, FetchContext, FetchedPartition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.fetch_codec import FetchBody
from ruslo.protocol.fetch_codec import FetchedPartition as PartitionAnswer
from ruslo.storage.disk import FileSlice
from ruslo.storage.log_reader import EMPTY_READ

if TYPE_CHECKING:
    from ruslo.broker.counters.traffic import TopicTraffic
    from ruslo.broker.handlers.fetch import FetchHandler
    from ruslo.broker.partitions.partition import Partition
    from ruslo.net.send_queue import Chunk


RECORDS_OF_AT_MOST = 200
"""Partitions whose records go into one answer: who appends them serves others too, and soon asks again."""


class FollowerFetch(Fetch):
    __slots__ = ("_came_ms", "_quiet", "_quiet_partitions", "_told", "_with_records")

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
        super().__init__(handler, listener_name, body, context, version, correlation_id, begun_ns)
        self._came_ms = handler.clock.monotonic_ms()
        self._quiet: list[FetchedPartition] = []
        """What there is nothing new of for this follower, and below the partitions of that. There may be
        thousands: a tuple for each would keep the garbage collector busy."""
        self._quiet_partitions: list[Partition] = []
        self._told = False
        """The leaders' replicas know how far it is."""
        self._with_records = 0

    def read(self) -> bool:
        waits = self._read_all()
        if not self._told:
            self._told = True
            if waits and self._has_grown():
                return self._read_all()
        return waits

    def _has_grown(self) -> bool:
        """Whether there is something now that was not there when it was looked for.

        What a follower tells may let a coordinator of this node go on, which appends its next record within
        the same call: nobody would wake the follower for that once it waits.
        """
        quiet = zip(self._quiet, self._quiet_partitions, strict=True)
        return any(partition.log.end_offset > asked.fetch_offset for asked, partition in quiet) or any(
            partition is not None and partition.log.end_offset > asked.fetch_offset
            for asked, _, partition in self._answers
        )

    def _read_all(self) -> bool:
        self._answers.clear()
        self._readable.clear()
        self._quiet.clear()
        self._quiet_partitions.clear()
        self._size = 0
        self._with_records = 0
        self._conclusive = False
        by_topic = self._manager.by_id if self._version >= TOPIC_IDS_FROM else self._manager.by_name
        for asked in self._context:
            known = by_topic.get(asked.topic)
            partition = known.get(asked.index) if known is not None else None
            if partition is not None and self._is_quiet(asked, partition):
                self._quiet.append(asked)
                self._quiet_partitions.append(partition)
            else:
                self._take_in(asked, partition)
        self._readable += self._quiet_partitions
        return self._should_wait()

    def _is_quiet(self, asked: FetchedPartition, partition: Partition) -> bool:
        """Whether the follower has all there is, which is noted then; False: look closer."""
        leader = partition.leader
        log = partition.log
        if (
            leader is None
            or leader.replication is None
            or asked.fetch_offset != log.end_offset
            or asked.current_leader_epoch != partition.leader_epoch
            or (
                asked.last_fetched_epoch >= 0
                and asked.last_fetched_epoch != log.epochs.latest
                and asked.last_fetched_epoch != log.epochs.epoch_before(log.end_offset)
            )
        ):
            return False
        body = self._body
        follower = leader.replication.followers.get(body.replica_id)
        if follower is None or body.replica_epoch < follower.broker_epoch:
            return False
        if not self._told:
            leader.on_follower_fetch(
                follower, asked.fetch_offset, asked.log_start_offset, body.replica_epoch, self._came_ms
            )
        if asked.log_start_offset < log.start_offset and asked.told_log_start != log.start_offset:
            # It has records that are deleted here: who wants them gone waits for it, and so does the in-sync
            # set if it is to come back.
            self._conclusive = True
        return True

    def _read_records(
        self, partition: Partition, asked: FetchedPartition, limit: int
    ) -> PartitionAnswer[FileSlice]:
        leader = partition.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        body = self._body
        follower = leader.follower(body.replica_id, body.replica_epoch)
        read = EMPTY_READ
        if self._with_records < RECORDS_OF_AT_MOST:
            read = partition.read_for_follower(asked.fetch_offset, limit, self._size == 0)
        else:
            self._conclusive = True
        if not self._told:
            # Once for each request: what it says was true when it came, not when its wait ends.
            leader.on_follower_fetch(
                follower, asked.fetch_offset, asked.log_start_offset, body.replica_epoch, self._came_ms
            )
        if leader.is_over_quota(follower):
            read = EMPTY_READ
        elif read.slice is not None:
            self._with_records += 1
            leader.on_sent(follower, read.slice.size)
        return self._found(partition, asked.index, read)

    @property
    def _may_read_follower(self) -> bool:
        """Replicas follow leaders only."""
        return False

    def _delayed_fetches(self) -> list[DelayedFetches]:
        return [each.leader.follower_fetches for each in self._readable if each.leader is not None]

    def answer(self) -> Sequence[Chunk]:
        """With the watermarks of quiet partitions, where they have moved since they were told."""
        tells_all = not self._context.is_incremental
        for asked, partition in zip(self._quiet, self._quiet_partitions, strict=True):
            log = partition.log
            if asked.log_start_offset < log.start_offset:
                # Told again until it says that it has heard: it may have dropped an answer.
                asked.told_log_start = UNKNOWN_OFFSET
            if (
                tells_all
                or asked.told_high_watermark != log.high_watermark
                or asked.told_log_start != log.start_offset
            ):
                told = self._offsets_only(partition, asked.index, None)
                self._answers.append((asked, told, partition))
            else:
                partition.traffic.fetches += 1
        return super().answer()

    def _count(self, traffic: TopicTraffic, size: int) -> None:
        traffic.fetches += 1
        traffic.replication_bytes_out += size
