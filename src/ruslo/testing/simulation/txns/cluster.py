"""Brokers that lead partitions, crash with the unsynced tails of their logs, and move leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.partitions.partition import Partition
from ruslo.config.broker import BrokerConfig
from ruslo.config.log_config import LogConfig
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.txns.cluster_view import NO_LEADER, ClusterView
from ruslo.machines.txns.settings import TxnSettings
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.storage.checkpoints import CheckpointedState
from ruslo.storage.log import Log
from ruslo.storage.log_creation import create_log
from ruslo.storage.log_loader import open_log
from ruslo.storage.trash import Trash
from ruslo.testing.cluster_layout import single_node_properties
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.connection import Connection, NetworkFaults, OnReply
from ruslo.testing.simulation.disk import MemoryDisk
from ruslo.testing.simulation.event_loop import SimEventLoop
from ruslo.testing.simulation.groups.topics import SimTopics
from ruslo.testing.simulation.txns.flusher import SimFlusher
from ruslo.testing.simulation.txns.node import OFFSETS_INDEX, STATE_INDEX, SimTxnNode

STATE = TopicPartition(TRANSACTION_STATE_TOPIC, STATE_INDEX)
OFFSETS = TopicPartition(GROUP_OFFSETS_TOPIC, OFFSETS_INDEX)
SOURCE_TOPIC = "source"
CALL_TIMEOUT_MS = 1_500

_LOG_CONFIG = LogConfig(flush_messages=1, segment_bytes=6_000, index_interval_bytes=200)
"""An ack waits for the sync, so acked records are never lost; segments are small, so they roll."""
_BROKER_CONFIG = BrokerConfig.from_properties(single_node_properties(Path("/sim")))


@dataclass(slots=True)
class ClusterFaults:
    clients: NetworkFaults = field(default_factory=NetworkFaults)
    batches: NetworkFaults = field(default_factory=NetworkFaults)
    """The faults of Produce requests."""
    verifications: NetworkFaults = field(default_factory=NetworkFaults)
    """The faults of verifications, from partition leaders to coordinators."""
    markers: NetworkFaults = field(default_factory=NetworkFaults)
    """The faults of markers, from coordinators to partition leaders."""
    sync_ms: int = 15
    """The longest duration of a sync."""
    tail_lost: float = 0.7
    """The probability that a new leader does not have unsynced records."""

    def stop(self) -> None:
        for faults in (self.clients, self.batches, self.verifications, self.markers):
            faults.copied = 0.0
            faults.line.lost = faults.line.slow = 0.0


class _View:
    """The cluster view of transaction coordinators."""

    def __init__(self, leaders: dict[TopicPartition, int]) -> None:
        self._leaders = leaders

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self._leaders.get(TopicPartition(topic, partition))

    def offsets_partition_of(self, group_id: str) -> int | None:
        return OFFSETS.partition


class SimTxnCluster:
    def __init__(
        self,
        clock: SimClock,
        tps: list[TopicPartition],
        *,
        nodes: int = 3,
        strict_brokers: bool = False,
        faults: ClusterFaults | None = None,
        settings: TxnSettings | None = None,
    ) -> None:
        """``strict_brokers``: connections between brokers are strict; see ``Connection``."""
        self.clock = clock
        self.loop = SimEventLoop(clock)
        self.faults = faults or ClusterFaults()
        self.config = _BROKER_CONFIG
        self.txn_settings = settings or TxnSettings()
        self.topics: TopicsView = SimTopics().with_topic(SOURCE_TOPIC, 1)
        self.tps = tps
        self.leaders = dict.fromkeys((*tps, STATE, OFFSETS), NO_LEADER)
        self.view: ClusterView = _View(self.leaders)
        self.nodes: dict[int, SimTxnNode] = {}
        self._strict_brokers = strict_brokers
        self._disk = MemoryDisk(clock)
        self._trash = Trash(self._disk, clock)
        self._epochs = dict.fromkeys(self.leaders, -1)
        self._connections: dict[tuple[SimTxnNode, int, bool], Connection[Message]] = {}
        self._producer_ids = count(1_000)
        self._markers_sent_ms: dict[asyncio.Future[Message], int] = {}
        with self.loop.running():
            for node_id in range(1, nodes + 1):
                self.nodes[node_id] = SimTxnNode(node_id, self)
            for at, tp in enumerate(self.leaders):
                self._lead(tp, 1 + at % nodes, lose_tail=False)

    def run_for(self, duration_ms: int) -> None:
        with self.loop.running():
            self.clock.run_for(duration_ms)

    def markers_under_way_ms(self) -> int:
        """How long a coordinator has been waiting for a response to its markers; 0 if none is."""
        now_ms = self.clock.monotonic_ms()
        return now_ms - min(self._markers_sent_ms.values(), default=now_ms)

    # -- faults ----------------------------------------------------------------------------------------------

    def crash(self, node_id: int, down_ms: int) -> None:
        """Crash the node; other nodes lead its partitions soon, and it restarts without any."""
        node = self.nodes[node_id]
        if not node.alive:
            return
        led = [tp for tp, leader in self.leaders.items() if leader == node_id]
        node.crash()
        for tp in led:
            self.leaders[tp] = NO_LEADER
        self._publish_leaders()
        for tp in led:
            self.clock.call_later(self.clock.random.randint(0, down_ms), partial(self._elect_leader, tp))
        self.clock.call_later(down_ms, lambda: self._restart(node_id))

    def move(self, tp: TopicPartition) -> None:
        """Move the leadership to another node, or to the same one with a new leader epoch."""
        leader = self.leaders[tp]
        if leader != NO_LEADER:
            self.nodes[leader].stop_leading(tp)
            self.leaders[tp] = NO_LEADER
            self._elect_leader(tp)

    def _restart(self, node_id: int) -> None:
        self.nodes[node_id] = SimTxnNode(node_id, self)

    def _elect_leader(self, tp: TopicPartition) -> None:
        alive = [node.id for node in self.nodes.values() if node.alive]
        if not alive:
            self.clock.call_later(100, lambda: self._elect_leader(tp))
            return
        random = self.clock.random
        self._lead(tp, random.choice(alive), lose_tail=random.random() < self.faults.tail_lost)
        self._publish_leaders()

    def _lead(self, tp: TopicPartition, node_id: int, *, lose_tail: bool) -> None:
        node, path = self.nodes[node_id], f"{self._disk.directory}/{tp}"
        if lose_tail:
            self._disk.lose_power(self.clock.random, path)
        log = self._open(tp, path)
        flusher = SimFlusher(self.clock, self.faults.sync_ms)
        partition = Partition(node_id, tp.topic, log.topic_id, tp.partition, log, flusher, TopicTraffic())
        self._epochs[tp] += 1
        self.leaders[tp] = node_id
        node.lead(partition, self._epochs[tp])

    def _open(self, tp: TopicPartition, path: str) -> Log:
        now_ms = self.clock.now_ms()
        if self._epochs[tp] >= 0:
            unclean = CheckpointedState(clean=False)
            return open_log(self._disk, path, tp, _LOG_CONFIG, self._trash, now_ms, unclean)
        topic_id = (1 + list(self.leaders).index(tp)).to_bytes(16, "big")
        log = create_log(self._disk, path, tp, topic_id, _LOG_CONFIG, self._trash, now_ms)
        self._disk.sync_everything()
        return log

    def _publish_leaders(self) -> None:
        for node in self.nodes.values():
            if node.alive:
                node.leaders_changed()

    def deliver(self, node_id: int, request: Callable[[SimTxnNode], None]) -> None:
        """Deliver a request to a node if it is alive."""
        node = self.nodes.get(node_id)
        if node is not None and node.alive:
            request(node)

    # -- used by nodes ---------------------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        return self.leaders[STATE]

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def call(self, source: SimTxnNode, node: int, request: Message, version: int) -> asyncio.Future[Message]:
        """Call another node, or the same one; the future fails after the timeout."""
        future: asyncio.Future[Message] = self.loop.create_future()
        is_marker = isinstance(request, WriteTxnMarkersRequest)
        faults = self.faults.markers if is_marker else self.faults.verifications
        key = (source, node, is_marker)
        if key not in self._connections:
            self._connections[key] = Connection(self.clock, faults, strict=self._strict_brokers)
        connection = self._connections[key]

        def deliver(on_reply: OnReply[Message]) -> None:
            self.deliver(node, lambda receiver: receiver.handle(request, version, on_reply))

        def complete(reply: Message | None) -> None:
            self._markers_sent_ms.pop(future, None)
            if reply is not None:
                future.set_result(reply)
                return
            if self._connections.get(key) is connection:
                connection.close()
                del self._connections[key]
            future.set_exception(ConnectionError(f"node {node} does not respond"))

        if is_marker:
            self._markers_sent_ms[future] = self.clock.monotonic_ms()
        connection.call(deliver, complete, CALL_TIMEOUT_MS)
        return future
