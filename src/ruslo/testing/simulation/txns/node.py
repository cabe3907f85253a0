"""A broker without sockets: the real coordinators, partitions and logs, on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.coordinators.groups.kind import group_kind
from ruslo.broker.coordinators.runtime.kind import CoordinatorKind, MachineT
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.broker.coordinators.txns.coordinator import markers_result
from ruslo.broker.coordinators.txns.kind import txn_kind
from ruslo.broker.coordinators.txns.markers import MarkerWriter
from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.transactional_appends import TransactionalAppends
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.machines.groups.consumer.patterns import compile_pattern
from ruslo.machines.groups.consumer.ports import InlineAssignors
from ruslo.machines.groups.errors import error_response as group_error_response
from ruslo.machines.groups.events import RequestInfo as GroupRequestInfo
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.txns.errors import error_response
from ruslo.machines.txns.events import (
    AllocateProducerId,
    ClusterChanged,
    ProducerIdAllocated,
    RequestInfo,
    SendMarkers,
    TxnEffect,
)
from ruslo.machines.txns.marker_requests import request_of
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
from ruslo.testing.simulation.connection import OnReply, ReplyT
from ruslo.testing.simulation.slice_clock import SliceClock
from ruslo.testing.simulation.txns.data_path import (
    DataPath,
    FetchBytes,
    Fetched,
    FetchedEnd,
    FetchEnd,
    ProduceBatch,
    Produced,
)
from ruslo.testing.simulation.txns.flusher import disk_failed

if TYPE_CHECKING:
    from ruslo.testing.simulation.txns.cluster import SimTxnCluster

ADD_PARTITIONS_VERSION = 5
MARKERS_VERSION = 2
REQUEST_TIMEOUT_MS = 4_000
COMMIT_CHECK_INTERVAL_MS = 2
STATE_INDEX = OFFSETS_INDEX = 0
"""Each internal topic has one partition."""

TxnCoordinatorShard: TypeAlias = CoordinatorShard[TxnShard]
GroupCoordinatorShard: TypeAlias = CoordinatorShard[GroupShard]


class SimTxnNode:
    def __init__(self, node_id: int, cluster: SimTxnCluster) -> None:
        self.id = node_id
        self.alive = True
        self.by_name: dict[str | Uuid, dict[int, Partition]] = {}
        self._cluster = cluster
        self._clock = cluster.clock
        self._txn_kind = txn_kind(
            lambda: TxnShard(cluster.txn_settings, compile_pattern, cluster.view),
            self._execute,
            commit_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._group_kind = group_kind(
            lambda: GroupShard(GroupSettings(), InlineAssignors(), cluster.topics),
            lambda shard, query: None,
            commit_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._scheduler = Scheduler(SliceClock(self._clock, self._clock.random))
        self._txns: dict[int, TxnCoordinatorShard] = {}
        self._groups: dict[int, GroupCoordinatorShard] = {}
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
            self._txns[partition.index] = self._load(self._new_shard(self._txn_kind, partition))
        elif partition.topic == GROUP_OFFSETS_TOPIC:
            self._groups[partition.index] = self._load(self._new_shard(self._group_kind, partition))

    def stop_leading(self, tp: TopicPartition) -> None:
        """Stop leading a partition: waiting requests fail."""
        partition = self.by_name[tp.topic].pop(tp.partition)
        shards: dict[str, dict[int, TxnCoordinatorShard] | dict[int, GroupCoordinatorShard]] = {
            TRANSACTION_STATE_TOPIC: self._txns,
            GROUP_OFFSETS_TOPIC: self._groups,
        }
        partition.retire()
        if tp.topic in shards:
            shards[tp.topic].pop(tp.partition).close()

    def crash(self) -> None:
        """Send no response any more."""
        self.alive = False
        for tp in [TopicPartition(str(topic), at) for topic, led in self.by_name.items() for at in led]:
            self.stop_leading(tp)

    def leaders_changed(self) -> None:
        for shard in self._txns.values():
            if shard.active:
                shard.handle(ClusterChanged(self._cluster.view))

    def _new_shard(self, kind: CoordinatorKind[MachineT], partition: Partition) -> CoordinatorShard[MachineT]:
        return CoordinatorShard(
            kind,
            partition,
            self._clock,
            self._scheduler,
            on_storage_error=disk_failed,
            reload=lambda shard: None,
        )

    def _load(self, shard: CoordinatorShard[MachineT]) -> CoordinatorShard[MachineT]:
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
        self._activate_when_committed(shard)
        return shard

    def _activate_when_committed(self, shard: CoordinatorShard[MachineT]) -> None:
        """Activate the shard when everything it has replayed is committed."""
        log = shard.partition.log
        if shard.closed:
            return
        if log.high_watermark < log.end_offset:
            self._clock.call_later(COMMIT_CHECK_INTERVAL_MS, lambda: self._activate_when_committed(shard))
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
            code = ErrorCode.NOT_COORDINATOR if shard is None else shard.error
            return group_error_response(request, context.api_version, code)
        return shard.submit(request, context.api_version, GroupRequestInfo(context.api_version, "sim"))

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended:
        shard = self._groups.get(index)
        if shard is None or not shard.active:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return shard.append_marker(marker, transaction_version)

    def node_of(self, transactional_id: str) -> int:
        return self._cluster.coordinator_of(transactional_id)

    def _verify_locally(
        self, transactional_id: str, producer_id: int, epoch: int, tp: TopicPartition
    ) -> ErrorCode | None:
        shard = self._txns.get(STATE_INDEX)
        if shard is None or not shard.active:
            return None
        return shard.machine.verify(transactional_id, producer_id, epoch, tp)

    def add_partitions(self, node: int, request: AddPartitionsToTxnRequest) -> asyncio.Future[Message]:
        return self._cluster.call(self, node, request, ADD_PARTITIONS_VERSION)

    def _execute(self, shard: TxnCoordinatorShard, effect: TxnEffect) -> None:
        if isinstance(effect, SendMarkers):
            send = effect
            sent = self._cluster.call(self, send.node, request_of(send.markers), MARKERS_VERSION)
            sent.add_done_callback(lambda done: shard.handle(markers_result(send.send_id, done)))
        elif isinstance(effect, AllocateProducerId):
            shard.handle(ProducerIdAllocated(effect.allocation, self._cluster.new_producer_id()))

    # -- requests --------------------------------------------------------------------------------------------

    def handle(self, request: Message, version: int, on_reply: OnReply[Message]) -> None:
        match request:
            case TxnOffsetCommitRequest():
                reply = self._offset_commits.commit(request, RequestContext(version))
            case OffsetFetchRequest(groups=[group]):
                reply = self.submit(group.group_id, request, RequestContext(version))
            case WriteTxnMarkersRequest():
                reply = self._markers.handle(request)
            case _:
                shard = self._txns.get(STATE_INDEX)
                if shard is not None and shard.active:
                    reply = shard.submit(request, version, RequestInfo(version))
                else:
                    code = ErrorCode.NOT_COORDINATOR if shard is None else shard.error
                    reply = error_response(request, version, code)
        send = self._while_alive(on_reply)
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: send(done.result()))
        else:
            send(reply)

    def produce(self, request: ProduceBatch, on_reply: OnReply[Produced]) -> None:
        self._data.produce(request, self._while_alive(on_reply))

    def fetch(self, request: FetchBytes, on_reply: OnReply[Fetched]) -> None:
        self._data.fetch(request, self._while_alive(on_reply))

    def fetch_end(self, request: FetchEnd, on_reply: OnReply[FetchedEnd]) -> None:
        self._data.fetch_end(request, self._while_alive(on_reply))

    def _while_alive(self, on_reply: OnReply[ReplyT]) -> OnReply[ReplyT]:
        """A function that sends the reply only if the node is alive."""

        def send(reply: ReplyT) -> None:
            if self.alive:
                on_reply(reply)

        return send
