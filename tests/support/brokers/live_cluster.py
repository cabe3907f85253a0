"""A cluster of whole nodes inside the test's own event loop: real sockets and files, no processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from ruslo.broker.node.format import QuorumOptions, format_storage
from ruslo.broker.node.node import Node
from ruslo.config.broker import BrokerConfig
from ruslo.model.ids import random_uuid, uuid_to_text
from tests.support.brokers.node import random_cluster_id
from tests.support.network.ports import free_port

LOOPBACK = "127.0.0.1"


class LiveCluster:
    def __init__(
        self,
        directory: Path,
        roles: Sequence[str],
        *,
        dynamic: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.dynamic = dynamic
        self.cluster_id = random_cluster_id()
        self.nodes: dict[int, Node] = {}
        self._configs: dict[int, BrokerConfig] = {}
        self._extra = dict(properties or {})
        self._ports = {node_id: free_port() for node_id in range(1, len(roles) + 1)}
        voters = {node_id: at for node_id, at in self._ports.items() if "controller" in roles[node_id - 1]}
        listed = {node_id: f"{node_id}@{LOOPBACK}:{at}" for node_id, at in voters.items()}
        if dynamic:
            servers = ",".join(f"{LOOPBACK}:{at}" for at in voters.values())
            self._quorum = {"controller.quorum.bootstrap.servers": servers}
            with_ids = (f"{text}:{uuid_to_text(random_uuid())}" for text in listed.values())
            self._voters = QuorumOptions(initial_controllers=",".join(with_ids))
        else:
            self._quorum = {"controller.quorum.voters": ",".join(listed.values())}
            self._voters = QuorumOptions()
        for node_id, role in enumerate(roles, 1):
            self.prepare(node_id, role, first=node_id in voters)

    def prepare(
        self, node_id: int, roles: str, *, first: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Format a node's directory; ``first``: it is one of the first voters."""
        port = self._ports.setdefault(node_id, free_port())
        listeners = {"broker": f"PLAINTEXT://{LOOPBACK}:0", "controller": f"CONTROLLER://{LOOPBACK}:{port}"}
        config = BrokerConfig.from_properties(
            {
                "process.roles": roles,
                "node.id": str(node_id),
                "listeners": ",".join(text for role, text in listeners.items() if role in roles),
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": str(self.directory / str(node_id)),
                "offsets.topic.replication.factor": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "share.coordinator.state.topic.replication.factor": "1",
                "share.coordinator.state.topic.min.isr": "1",
                "ruslo.metrics.listener": f"{LOOPBACK}:0",
                **self._quorum,
                **self._extra,
                **(properties or {}),
            }
        )
        options = self._voters if first else QuorumOptions(no_initial_controllers=self.dynamic)
        format_storage(config, cluster_id=self.cluster_id, quorum=options, ignore_formatted=True)
        self._configs[node_id] = config

    async def start(self, *node_ids: int) -> None:
        wanted = node_ids or tuple(self._configs)
        for node_id in wanted:
            self.nodes[node_id] = Node(self._configs[node_id])
        await asyncio.gather(*(self.nodes[node_id].start() for node_id in wanted))

    async def stop(self, *node_ids: int) -> None:
        for node_id in node_ids or tuple(self.nodes):
            await self.nodes.pop(node_id).stop()

    @property
    def leader_id(self) -> int:
        """The leader that all running nodes know; -1 unless they agree."""
        leaders = {node.raft.leader_id for node in self.nodes.values()}
        return leaders.pop() if len(leaders) == 1 else -1


@contextlib.asynccontextmanager
async def live_cluster(
    directory: Path,
    roles: Sequence[str],
    *,
    dynamic: bool = False,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[LiveCluster]:
    cluster = LiveCluster(directory, roles, dynamic=dynamic, properties=properties)
    await cluster.start()
    try:
        yield cluster
    finally:
        # Brokers stop first: their controlled shutdown needs a controller.
        controllers_last = sorted(
            cluster.nodes, key=lambda node_id: cluster.nodes[node_id].config.is_controller
        )
        await cluster.stop(*controllers_last)
