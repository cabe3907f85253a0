"""A broker without sockets: the real drivers, partitions and logs, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from ruslo.broker.coordinators.groups.shard_driver import ADAPTIVE_LINGER_MS, ShardDriver, WriteSettings
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.coordinators.txns.shard_driver import TxnShardDriver
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.groups.consumer.patterns import compile_pattern
from ruslo.machines.groups.consumer.ports import InlineAssignors
from ruslo.machines.groups.events import RequestInfo as GroupRequestInfo
from ruslo.machines.groups.refusals import refusal as group_refusal
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.txns.cluster_view import ClusterView
from ruslo.machines.txns.events import ClusterChanged, MarkerSend, RequestInfo
from ruslo.machines.txns.marker_requests import request_of
from ruslo.machines.txns.refusals import refusal
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.shard import TxnShard
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.records.reader import iter_batches
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.slice_clock import SliceClock
from ruslo.testing.simulation.txns.data_path import DataPath
from ruslo.testing.simulation.txns.flusher import disk_failed
from ruslo.testing.simulation.txns.network import Answer, ReplyT
from ruslo.testing.simulation.txns.requests import (
    FetchBytes,
    Fetched,
    FetchedEnd,
    FetchEnd,
    ProduceBatch,
    Produced,
)

ADD_PARTITIONS_VERSION = 5
MARKERS_VERSION = 2
REQUEST_TIMEOUT_MS = 4_000
LOOK_MS = 2
STATE_INDEX = OFFSETS_INDEX = 0
"""There is one partition of each."""

ShardT = TypeVar("ShardT", TxnShardDriver, ShardDriver)

_WRITES = WriteSettings(commit_timeout_ms=REQUEST_TIMEOUT_MS, codec=0, linger_ms=ADAPTIVE_LINGER_MS)


class Surroundings(Protocol):
    """What a node knows of the rest of its cluster."""

    clock: SimClock
    config: BrokerConfig
    txn_settings: TxnSettings
    topics: TopicsView
    view: ClusterView

    def coordinator_of(self, transactional_id: str) -> int: ...

    def new_producer_id(self) -> int: ...

    def call(self, source: SimTxnNode, node: int, request: Message, version: int) -> asyncio.Future[Message]:
        """To another node, or to itself; the future fails when no answer comes in time."""
        ...


class SimTxnNode:
    def __init__(self, node_id: int, cluster: Surroundings) -> None:
        self.id = node_id
        self.alive = True
        self.by_name: dict[str | Uuid, dict[int, Partition]] = {}
        self._cluster = cluster
        self._clock = cluster.clock
        self._scheduler = Scheduler(SliceClock(self._clock, self._clock.random))
        self._txns: dict[int, TxnShardDriver] = {}
        self._groups: dict[int, ShardDriver] = {}
        verifier = TransactionVerifier(self, self._verify_locally)
        appends = TransactionalAppends(verifier, lambda: cluster.config, self._clock)
        self._data = DataPath(self, appends, self._clock)
        self._markers = MarkerWriter(self, self, self._clock, self._scheduler, REQUEST_TIMEOUT_MS)
        self._offset_commits = TransactionalOffsetCommits(
            verifier, self, self, lambda: cluster.config, self._clock
        )

    # -- leadership ------------------------------------------------------------------------------------------

    def lead(self, partition: Partition, leader_epoch: int) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        partition.become_leader(leader_epoch)
        if partition.topic == TRANSACTION_STATE_TOPIC:
            self._txns[partition.index] = self._load(self._new_txn_shard(partition))
        elif partition.topic == GROUP_OFFSETS_TOPIC:
            self._groups[partition.index] = self._load(self._new_group_shard(partition))

    def stop_leading(self, place: TopicPartition) -> None:
        """Another node does: whoever waits here is told so."""
        partition = self.by_name[place.topic].pop(place.partition)
        shards: dict[str, dict[int, TxnShardDriver] | dict[int, ShardDriver]] = {
            TRANSACTION_STATE_TOPIC: self._txns,
            GROUP_OFFSETS_TOPIC: self._groups,
        }
        partition.retire()
        if place.topic in shards:
            shards[place.topic].pop(place.partition).close()

    def die(self) -> None:
        """On the spot: nobody is told anything."""
        self.alive = False
        for place in [TopicPartition(str(topic), at) for topic, led in self.by_name.items() for at in led]:
            self.stop_leading(place)

    def leaders_changed(self) -> None:
        for shard in self._txns.values():
            if shard.active:
                shard.run(ClusterChanged(self._cluster.view))

    def _new_txn_shard(self, partition: Partition) -> TxnShardDriver:
        return TxnShardDriver(
            TxnShard(self._cluster.txn_settings, compile_pattern, self._cluster.view),
            partition,
            self._clock,
            self._scheduler,
            commit_timeout_ms=REQUEST_TIMEOUT_MS,
            send_markers=self._send_markers,
            get_producer_id=lambda give: give(self._cluster.new_producer_id()),
            on_storage_error=disk_failed,
        )

    def _new_group_shard(self, partition: Partition) -> ShardDriver:
        return ShardDriver(
            GroupShard(GroupSettings(), InlineAssignors(), self._cluster.topics),
            partition,
            self._clock,
            _WRITES,
            self._scheduler,
            on_ask=lambda shard, ask: None,
            on_storage_error=disk_failed,
            on_broken=lambda shard: None,
        )

    def _load(self, shard: ShardT) -> ShardT:
        log = shard.partition.log
        offset = log.start_offset
        while offset < log.end_offset:
            part = log.read(offset, 1 << 20, log.end_offset).slice
            assert part is not None
            data = memoryview(part.read())
            for at, header in iter_batches(data):
                for _ in shard.replay_batch(header, data[at : at + header.size]):
                    pass
                offset = header.last_offset + 1
        self._activate_when_safe(shard)
        return shard

    def _activate_when_safe(self, shard: TxnShardDriver | ShardDriver) -> None:
        """A decision must be safe before anybody acts on it."""
        log = shard.partition.log
        if shard.closed:
            return
        if log.high_watermark < log.end_offset:
            self._clock.call_later(LOOK_MS, lambda: self._activate_when_safe(shard))
            return
        shard.activate()

    # -- ports of the drivers --------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition:
        partition = self.by_name.get(topic, {}).get(index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def storage_failed(self, error: StorageError) -> None:
        disk_failed(error)

    def partition_of(self, group_id: str) -> int:
        return OFFSETS_INDEX

    def is_active(self, partition: int) -> bool:
        return partition in self._groups and self._groups[partition].active

    def submit(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | asyncio.Future[Message]:
        shard = self._groups.get(self.partition_of(group_id))
        if shard is None or not shard.active:
            code = ErrorCode.NOT_COORDINATOR if shard is None else shard.refusal
            return group_refusal(request, context.api_version, code)
        return shard.submit(request, GroupRequestInfo(context.api_version, "sim"))

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended:
        shard = self._groups.get(index)
        if shard is None or not shard.active:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return shard.append_marker(marker, transaction_version)

    def node_of(self, transactional_id: str) -> int:
        return self._cluster.coordinator_of(transactional_id)

    def _verify_locally(
        self, transactional_id: str, producer_id: int, epoch: int, place: TopicPartition
    ) -> ErrorCode | None:
        shard = self._txns.get(STATE_INDEX)
        if shard is None or not shard.active:
            return None
        return shard.shard.verify(transactional_id, producer_id, epoch, place)

    def add_partitions(self, node: int, request: AddPartitionsToTxnRequest) -> asyncio.Future[Message]:
        return self._cluster.call(self, node, request, ADD_PARTITIONS_VERSION)

    def _send_markers(self, send: MarkerSend) -> asyncio.Future[Message]:
        return self._cluster.call(self, send.node, request_of(send.markers), MARKERS_VERSION)

    # -- requests --------------------------------------------------------------------------------------------

    def handle(self, request: Message, version: int, answer: Answer[Message]) -> None:
        match request:
            case TxnOffsetCommitRequest():
                reply = self._offset_commits.commit(request, RequestContext(version))
            case OffsetFetchRequest(groups=[group]):
                reply = self.submit(group.group_id, request, RequestContext(version))
            case WriteTxnMarkersRequest():
                reply = self._markers.answer(request)
            case _:
                shard = self._txns.get(STATE_INDEX)
                if shard is not None and shard.active:
                    reply = shard.submit(request, RequestInfo(version))
                else:
                    code = ErrorCode.NOT_COORDINATOR if shard is None else shard.refusal
                    reply = refusal(request, version, code)
        speak = self._while_alive(answer)
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: speak(done.result()))
        else:
            speak(reply)

    def produce(self, request: ProduceBatch, answer: Answer[Produced]) -> None:
        self._data.produce(request, self._while_alive(answer))

    def fetch(self, request: FetchBytes, answer: Answer[Fetched]) -> None:
        self._data.fetch(request, self._while_alive(answer))

    def fetch_end(self, request: FetchEnd, answer: Answer[FetchedEnd]) -> None:
        self._data.fetch_end(request, self._while_alive(answer))

    def _while_alive(self, answer: Answer[ReplyT]) -> Answer[ReplyT]:
        """The dead do not speak."""

        def speak(reply: ReplyT) -> None:
            if self.alive:
                answer(reply)

        return speak
