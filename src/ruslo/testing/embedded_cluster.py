"""A real cluster for tests: several nodes in this process, with real sockets and real files.

Each node has its own thread and event loop, so one can pause or stop while the others continue.
Any client can connect.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster
from ruslo.testing.cluster_network import ClusterNetwork
from ruslo.testing.cluster_node import ClusterNode, ClusterNodeFailed
from ruslo.testing.ports import LOOPBACK, reserve_ports

if TYPE_CHECKING:
    from ruslo.broker.node.node import Node

ResultT = TypeVar("ResultT")

TEST_PROPERTIES = {
    # Time until a paused or partitioned node is fenced; a killed node is fenced at once.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # The first group or transaction waits until all of them are created.
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Metrics are not needed in tests.
    "ruslo.metrics.listener": "",
}
_POLL_INTERVAL_S = 0.02


class EmbeddedCluster:
    """``with EmbeddedCluster() as cluster: Producer({"bootstrap.servers": cluster.bootstrap})``.

    Nodes have the IDs 1, 2, 3, …, and each is broker and controller. By default topics have three
    replicas, and ``min.insync.replicas`` is two. ``properties`` are broker properties of all nodes. ``racks``
    are the racks of the nodes; by default each has its own.

    Without ``data_dir`` the data is in a temporary folder, which ``close`` (or the end of the ``with`` block)
    removes.
    """

    def __init__(
        self,
        nodes: int = 3,
        properties: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] = (),
        data_dir: Path | None = None,
        start_timeout_s: float = 30.0,
    ) -> None:
        self._start_timeout_s = start_timeout_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ruslo-", ignore_cleanup_errors=True)
            data_dir = Path(self._folder.name)
        self.data_dir = data_dir
        """Contains the log directory of each node: ``node-1``, …"""
        numbers = reserve_ports(2 * nodes)
        ports = [NodePorts(*numbers[at : at + 2]) for at in range(0, 2 * nodes, 2)]
        self._addresses = {node_id: f"{LOOPBACK}:{each.broker}" for node_id, each in enumerate(ports, 1)}
        self._network = ClusterNetwork(
            {port: node_id for node_id, each in enumerate(ports, 1) for port in each}
        )
        self._nodes = self._prepare(
            cluster_properties(
                data_dir, ports, racks=racks, overrides=TEST_PROPERTIES | dict(properties or {})
            )
        )

    def _prepare(self, nodes: Sequence[Mapping[str, str]]) -> dict[int, ClusterNode]:
        from ruslo.config.broker import BrokerConfig

        configs = [BrokerConfig.from_properties(each) for each in nodes]
        format_cluster(configs)
        return {config.node_id: ClusterNode(config, self._network) for config in configs}

    # -- queries ---------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        return list(self._nodes)

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of clients: all nodes, including stopped ones."""
        return ",".join(self._addresses.values())

    def bootstrap_of(self, node_id: int) -> str:
        """The address of one node."""
        self._node(node_id)
        return self._addresses[node_id]

    def is_running(self, node_id: int) -> bool:
        return self._node(node_id).running

    def controller(self) -> int:
        """The active controller; waits until there is one."""
        return self._wait_for("there is an active controller", self._active_controller)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; waits until a running node leads it."""

        def find_leader() -> int | None:
            state = next((each for each in self._partitions() if each[:2] == (topic, partition)), None)
            return state.leader_id if state and self._is_running(state.leader_id) else None

        return self._wait_for(f"{topic}-{partition} has a leader", find_leader)

    def wait_until_in_sync(self, *topics: str, timeout_s: float = 30.0) -> None:
        """Wait until every replica of these topics, or of all topics, is in sync."""

        def is_in_sync() -> bool | None:
            chosen = [each for each in self._partitions() if not topics or each.topic in topics]
            known = {each.topic for each in chosen}
            return (known >= set(topics) and all(each.in_sync for each in chosen)) or None

        self._wait_for("all replicas are in sync", is_in_sync, timeout_s)

    # -- lifecycle and faults --------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> Self:
        """Start these nodes, or all that are not running; returns when clients can connect to them."""
        chosen = [self._node(each) for each in node_ids] or [
            node for node in self._nodes.values() if not node.running
        ]
        for node in chosen:
            node.launch()
        for node in chosen:
            node.wait_until_ready(self._start_timeout_s)
        return self

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Stop a node with a controlled shutdown."""
        self._node(node_id).stop(timeout_s)

    def kill(self, *node_ids: int) -> None:
        """Kill nodes like kill -9: their connections close, and they write nothing more."""
        for node_id in node_ids:
            self._node(node_id).kill()

    def restart(self, node_id: int) -> None:
        """Start a node again with its data and address. A running node is stopped first."""
        node = self._node(node_id)
        if node.running:
            node.stop(self._start_timeout_s)
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """Pause a node like SIGSTOP: its connections stay open, but it does not respond."""
        self._node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Resume a paused node."""
        self._node(node_id).resume()

    def partition(self, *node_ids: int, one_way: bool = False) -> None:
        """Partition these nodes from the others. Clients still reach all nodes.

        ``one_way``: these nodes still receive from the others, but cannot send to them.
        """
        isolated = {self._node(each).node_id for each in node_ids}
        others = self._nodes.keys() - isolated
        self._network.block(isolated, others)
        if not one_way:
            self._network.block(others, isolated)

    def heal(self) -> None:
        """Connect all nodes again."""
        self._network.heal()

    def close(self) -> None:
        """Kill all nodes and remove the temporary folder."""
        try:
            self.kill(*self._nodes)
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- internals -------------------------------------------------------------------------------------------

    def _node(self, node_id: int) -> ClusterNode:
        node = self._nodes.get(node_id)
        if node is None:
            raise ClusterNodeFailed(f"unknown node {node_id}; the nodes are {self.node_ids}")
        return node

    def _is_running(self, node_id: int) -> bool:
        return node_id in self._nodes and self._nodes[node_id].running

    def _active_controller(self) -> int | None:
        """The leader of the highest epoch that any node knows: a partitioned node may know an older one."""
        responsive = [node for node in self._nodes.values() if node.is_ready and not node.paused]
        known = [each.query(lambda node: (node.raft.epoch, node.raft.leader_id)) for each in responsive]
        epoch, leader_id = max(known, default=(-1, -1))
        return leader_id if self._is_running(leader_id) and (epoch, leader_id) in known else None

    def _partitions(self) -> list[_PartitionState]:
        """All partitions, as the active controller knows them; empty without a controller."""
        controller_id = self._active_controller()
        if controller_id is None or self._nodes[controller_id].paused:
            return []
        return self._nodes[controller_id].query(_partition_states)

    def _wait_for(
        self, condition: str, check: Callable[[], ResultT | None], timeout_s: float = 30.0
    ) -> ResultT:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = check()
            if found is not None:
                return found
            time.sleep(_POLL_INTERVAL_S)
        raise TimeoutError(f"timed out after {timeout_s:g} s: {condition}")


class _PartitionState(NamedTuple):
    topic: str
    partition: int
    leader_id: int
    in_sync: bool


def _partition_states(node: Node) -> list[_PartitionState]:
    return [
        _PartitionState(topic.name, index, partition.leader, set(partition.isr) == set(partition.replicas))
        for topic in node.metadata.image.topics.by_name.values()
        for index, partition in enumerate(topic.partitions)
    ]
