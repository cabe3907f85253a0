"""Three whole nodes, each broker and controller, on their own hosts, and the hosts of clients."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruslo.broker.node.format import QuorumOptions
from ruslo.broker.node.node import Node
from ruslo.broker.partitions.partition import Partition
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.model.ids import Uuid, random_uuid, uuid_to_text
from ruslo.model.topics import TopicPartition
from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster
from ruslo.testing.ports import LOOPBACK
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.disk import MemoryDisk
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
CONTROLLER_LISTENER = "CONTROLLER"
START_TIMEOUT_MS = 20_000
POLL_INTERVAL_MS = 20
"""Interval at which ``run_until`` checks its condition."""

PROPERTIES: Mapping[str, str] = {
    # Shorter than usual, so that several failovers fit into a few seconds.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "1600",
    "controller.quorum.fetch.timeout.ms": "900",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "900",
    "request.timeout.ms": "1200",
    "replica.socket.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1400",
    "replica.fetch.wait.max.ms": "600",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "log.flush.offset.checkpoint.interval.ms": "1900",
    "metadata.max.idle.interval.ms": "1000",
    # A node that misses a second of changes starts from a snapshot, fetched in several chunks.
    "metadata.log.max.record.bytes.between.snapshots": "800",
    "metadata.max.retention.bytes": "0",
    "controller.quorum.fetch.snapshot.max.bytes": "900",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Short segments, so that there are many, also unsynced ones; they are deleted or compacted soon.
    "metadata.log.segment.ms": "150",
    "log.roll.ms": "150",
    "log.segment.delete.delay.ms": "300",
    "log.retention.check.interval.ms": "350",
    "log.cleaner.backoff.ms": "250",
    "log.cleaner.min.cleanable.ratio": "0",
    # Real threads would break determinism.
    "num.recovery.threads.per.data.dir": "1",
}


class SimCluster:
    def __init__(
        self,
        clock: SimClock,
        *,
        nodes: int = 3,
        properties: Mapping[str, str] | None = None,
        on_step: Callable[[SimHost], None] = lambda host: None,
    ) -> None:
        """``on_step``: called after every step of a node."""
        self.clock = clock
        self.network = SimNetwork(clock)
        self.hosts: dict[int, SimHost] = {}
        self.partitions: list[TopicPartition] = []
        """The partitions, each initially with a replica on every node."""
        self._clients: list[ProcessLoop] = []
        overrides = {**PROPERTIES, **(properties or {})}
        ids = [random_uuid(clock.random.randbytes) for _ in range(nodes)]
        cluster_id = uuid_to_text(random_uuid(clock.random.randbytes))
        with tempfile.TemporaryDirectory(prefix="ruslo-") as folder:
            configs = _configs(Path(folder), nodes, overrides)
            format_cluster(configs, _first_voters(ids), cluster_id=cluster_id, clock=clock)
            for config, directory_id in zip(_configs(Path("/sim"), nodes, overrides), ids, strict=True):
                address = address_of(config.node_id)
                host = SimHost(config, directory_id, address, self.network, on_step)
                self.hosts[config.node_id] = host
                _copy_files(Path(folder, Path(config.log_dirs[0]).name), host.disk)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:{BROKER_PORT}" for host in self.hosts.values())

    def start(self) -> None:
        """Return when all nodes are ready."""
        for host in self.hosts.values():
            host.start()
        self.run_until(lambda: all(host.ready for host in self.hosts.values()), START_TIMEOUT_MS)

    def run_until(self, done: Callable[[], bool], within_ms: int) -> bool:
        end_ms = self.clock.monotonic_ms() + within_ms
        while not done():
            if self.clock.monotonic_ms() >= end_ms:
                return False
            self.clock.run_for(POLL_INTERVAL_MS)
        return True

    def is_healthy(self) -> bool:
        """All nodes agree on a controller, no reassignment is in progress, and every partition has all its
        replicas in sync."""
        hosts = list(self.hosts.values())
        nodes = [host.node for host in hosts if host.ready and host.node is not None]
        if len(nodes) < len(hosts) or len({(node.raft.leader_id, node.raft.epoch) for node in nodes}) > 1:
            return False
        if not all(self._is_in_sync(tp, nodes) for tp in self.partitions):
            return False
        for host in hosts:
            host.data_lost = False
        return True

    def may_be_distrusted(self, host: SimHost) -> bool:
        """While one host has lost data, the others must not be killed or unregistered.

        The controller cannot tell either from a loss of power: an unregistered broker has no epoch to compare
        with. If all may have lost data, the last leader is trusted (KIP-966), which may be the one that did.
        """
        return host.data_lost or not any(each.data_lost for each in self.hosts.values())

    def _is_in_sync(self, tp: TopicPartition, nodes: Sequence[Node]) -> bool:
        known = partition_in(nodes[0].metadata.image, tp)
        if known is None or any(partition_in(node.metadata.image, tp) != known for node in nodes):
            return False
        replicas = {node.config.node_id: r for node in nodes if (r := replica_of(node, tp)) is not None}
        led = replicas.get(known.leader)
        if known.adding or known.removing or not set(known.isr) == set(known.replicas) == set(replicas):
            return False
        if led is None or not led.has_followers or set(led.isr) != set(replicas):
            return False
        return all(replica.log.end_offset >= led.log.high_watermark for replica in replicas.values())

    def leader(self, tp: TopicPartition) -> SimHost | None:
        """The host that considers itself the leader."""
        for host in self.hosts.values():
            replica = replica_of(host.node, tp) if host.node is not None and host.ready else None
            if replica is not None and replica.is_leader:
                return host
        return None

    def voter_ids(self) -> list[int]:
        """The voters as known to the most recent node."""
        rafts = [host.node.raft for host in self.hosts.values() if host.node is not None and host.ready]
        newest = max(rafts, key=lambda raft: (raft.epoch, raft.end_offset), default=None)
        return [] if newest is None else sorted(newest.voters.ids)

    # -- clients ---------------------------------------------------------------------------------------------

    def spawn(self, name: str, program: Callable[[], Coroutine[Any, Any, None]]) -> ProcessLoop:
        """Start a process on its own host without a disk."""
        loop = ProcessLoop(self.network, name, ProcessClock(self.clock), lambda: None)
        self._clients.append(loop)
        loop.call_soon(lambda: loop.create_task(program()))
        return loop


def address_of(node_id: int) -> str:
    return f"node-{node_id}"


def replica_of(node: Node, tp: TopicPartition) -> Partition | None:
    """The node's replica of a partition, if it has one and has started that far."""
    if not node.has_loaded:
        return None
    return node.broker.partitions.by_name.get(tp.topic, {}).get(tp.partition)


def partition_in(image: MetadataImage, tp: TopicPartition) -> PartitionImage | None:
    topic = image.topics.by_name.get(tp.topic)
    return topic.partitions[tp.partition] if topic is not None else None


def _configs(folder: Path, nodes: int, overrides: Mapping[str, str]) -> list[BrokerConfig]:
    ports = [NodePorts(BROKER_PORT, CONTROLLER_PORT)] * nodes
    listed = cluster_properties(folder, ports, overrides=overrides)
    controllers = ",".join(f"{address_of(at)}:{CONTROLLER_PORT}" for at in range(1, nodes + 1))
    configs = []
    for at, properties in enumerate(listed, 1):
        # The voters are in the metadata log, so that they can change (KIP-853).
        del properties["controller.quorum.voters"]
        properties["controller.quorum.bootstrap.servers"] = controllers
        properties["listeners"] = properties["listeners"].replace(LOOPBACK, address_of(at))
        configs.append(BrokerConfig.from_properties(properties))
    return configs


def _first_voters(directory_ids: Sequence[Uuid]) -> QuorumOptions:
    return QuorumOptions(
        initial_controllers=",".join(
            f"{at}@{address_of(at)}:{CONTROLLER_PORT}:{uuid_to_text(directory_id)}"
            for at, directory_id in enumerate(directory_ids, 1)
        )
    )


def _copy_files(source: Path, disk: MemoryDisk) -> None:
    for path in sorted(source.rglob("*")):
        target = f"{disk.directory}/{path.relative_to(source)}"
        if path.is_dir():
            disk.make_directory(target)
        else:
            disk.replace_file(target, path.read_bytes())
