"""Three whole nodes, each broker and controller, on hosts of their own; and the hosts of clients."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from ruslo.config.broker import BrokerConfig
from ruslo.model.topics import TopicPartition
from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop
from ruslo.testing.single_node import LOOPBACK

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
START_MS = 20_000
LOOK_MS = 20
"""How often somebody who waits looks."""

PROPERTIES: Mapping[str, str] = {
    # Shorter than in real life, so that a few seconds have room for several failovers.
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
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Threads and processes of the system have no place here.
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.enable": "false",
}


class SimCluster:
    def __init__(
        self, clock: SimClock, *, nodes: int = 3, properties: Mapping[str, str] | None = None
    ) -> None:
        self.clock = clock
        self.network = SimNetwork(clock)
        self.watch: Callable[[SimHost], None] | None = None
        """Called whenever a node has done something."""
        self.hosts: dict[int, SimHost] = {}
        self.places: list[TopicPartition] = []
        """The partitions there are, each with a replica on every node."""
        self._clients: list[ProcessLoop] = []
        overrides = {**PROPERTIES, **(properties or {})}
        with tempfile.TemporaryDirectory(prefix="ruslo-") as folder:
            format_cluster(_configs(Path(folder), nodes, overrides))
            for config in _configs(Path("/sim"), nodes, overrides):
                address = address_of(config.node_id)
                host = self.hosts[config.node_id] = SimHost(config, address, self.network, self._stepped)
                for file in sorted(Path(folder, Path(config.log_dirs[0]).name).iterdir()):
                    host.disk.replace_file(f"{host.disk.directory}/{file.name}", file.read_bytes())

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:{BROKER_PORT}" for host in self.hosts.values())

    def start(self) -> None:
        """Return when all nodes serve."""
        for host in self.hosts.values():
            host.start()
        self.run_until(lambda: all(host.ready for host in self.hosts.values()), START_MS)

    def run_until(self, done: Callable[[], bool], within_ms: int) -> bool:
        end_ms = self.clock.monotonic_ms() + within_ms
        while not done():
            if self.clock.monotonic_ms() >= end_ms:
                return False
            self.clock.run_for(LOOK_MS)
        return True

    def is_whole(self) -> bool:
        """All nodes agree on a controller, and every partition has all its replicas in sync."""
        hosts = list(self.hosts.values())
        nodes = [host.node for host in hosts if host.ready and host.node is not None]
        if len(nodes) < len(hosts) or len({(node.raft.leader_id, node.raft.epoch) for node in nodes}) > 1:
            return False
        for place in self.places:
            copies = [node.broker.partitions.get(place.topic, place.partition) for node in nodes]
            led = next((copy for copy in copies if copy.is_leader), None)
            if led is None or led.replication is None or len(led.replication.isr) < len(nodes):
                return False
            if any(copy.log.end_offset < led.log.high_watermark for copy in copies):
                return False
        for host in hosts:
            host.data_lost = False
        return True

    # -- clients ---------------------------------------------------------------------------------------------

    def spawn(self, name: str, program: Callable[[], Coroutine[Any, Any, None]]) -> ProcessLoop:
        """A process on a host of its own, that has no disk."""
        loop = ProcessLoop(self.network, name, ProcessClock(self.clock), lambda: None)
        self._clients.append(loop)
        loop.call_soon(lambda: loop.create_task(program()))
        return loop

    def _stepped(self, host: SimHost) -> None:
        if self.watch is not None:
            self.watch(host)


def address_of(node_id: int) -> str:
    return f"node-{node_id}"


def _configs(folder: Path, nodes: int, overrides: Mapping[str, str]) -> list[BrokerConfig]:
    ports = [NodePorts(BROKER_PORT, CONTROLLER_PORT)] * nodes
    listed = cluster_properties(folder, ports, overrides=overrides)
    voters = ",".join(f"{at}@{address_of(at)}:{CONTROLLER_PORT}" for at in range(1, nodes + 1))
    return [
        BrokerConfig.from_properties(
            {
                **properties,
                "listeners": properties["listeners"].replace(LOOPBACK, address_of(at)),
                "controller.quorum.voters": voters,
            }
        )
        for at, properties in enumerate(listed, 1)
    ]
