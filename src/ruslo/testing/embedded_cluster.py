"""A real cluster inside a test: several nodes in this process, with real sockets and real files.

Each node has a thread and an event loop of its own, so that one can stand still or end while the others go
on. Clients of any kind connect as to any other cluster.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster, free_ports
from ruslo.testing.cluster_network import ClusterNetwork
from ruslo.testing.cluster_node import ClusterNode, ClusterNodeFailed
from ruslo.testing.single_node import LOOPBACK

if TYPE_CHECKING:
    from ruslo.broker.node.node import Node

ResultT = TypeVar("ResultT")

FOR_TESTS = {
    # A node that is paused or cut off is given up after so long; one that is killed, at once.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Few, because the first group or transaction waits until all of them are there.
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Nobody scrapes the nodes of a test.
    "ruslo.metrics.listener": "",
}
_POLL_S = 0.02


class EmbeddedCluster:
    """``with EmbeddedCluster() as cluster: Producer({"bootstrap.servers": cluster.bootstrap})``.

    Nodes have the ids 1, 2, 3, …, and each is broker and controller. Topics have three copies by default, two
    of which must have a record before it is acknowledged. ``properties`` are Kafka's own and hold for all
    nodes; ``racks`` names the rack of each, else each is its own.

    Without ``data_dir`` all is kept in a temporary folder that ``close`` (or leaving the ``with``) removes.
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
        """Each node has its log directory in here: ``node-1``, …"""
        numbers = free_ports(2 * nodes)
        ports = [NodePorts(*numbers[at : at + 2]) for at in range(0, 2 * nodes, 2)]
        self._addresses = {node_id: f"{LOOPBACK}:{each.broker}" for node_id, each in enumerate(ports, 1)}
        self._network = ClusterNetwork(
            {port: node_id for node_id, each in enumerate(ports, 1) for port in each}
        )
        self._nodes = self._prepare(
            cluster_properties(data_dir, ports, racks=racks, overrides=FOR_TESTS | dict(properties or {}))
        )

    def _prepare(self, nodes: Sequence[Mapping[str, str]]) -> dict[int, ClusterNode]:
        from ruslo.config.broker import BrokerConfig

        configs = [BrokerConfig.from_properties(each) for each in nodes]
        format_cluster(configs)
        return {config.node_id: ClusterNode(config, self._network) for config in configs}

    # -- what tests need to know -----------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        return list(self._nodes)

    @property
    def bootstrap(self) -> str:
        """What clients are given as ``bootstrap.servers``: all nodes, also those that do not run just now."""
        return ",".join(self._addresses.values())

    def bootstrap_of(self, node_id: int) -> str:
        """The address of this one alone."""
        self._node(node_id)
        return self._addresses[node_id]

    def is_running(self, node_id: int) -> bool:
        return self._node(node_id).running

    def controller(self) -> int:
        """The node that is the active controller; waits for one."""
        return self._until("there is an active controller", self._active_controller)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node that leads it; waits until one that runs does."""

        def look() -> int | None:
            place = next((each for each in self._places() if each[:2] == (topic, partition)), None)
            return place.leader_id if place and self._runs(place.leader_id) else None

        return self._until(f"{topic}-{partition} has a leader", look)

    def wait_until_in_sync(self, *topics: str, timeout_s: float = 30.0) -> None:
        """Until every replica of these topics, or of all there are, is in sync."""

        def look() -> bool | None:
            chosen = [each for each in self._places() if not topics or each.topic in topics]
            known = {each.topic for each in chosen}
            return (known >= set(topics) and all(each.in_sync for each in chosen)) or None

        self._until("all replicas are in sync", look, timeout_s)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> Self:
        """These nodes, or all that do not run; returns when clients may connect to them."""
        chosen = [self._node(each) for each in node_ids] or [
            node for node in self._nodes.values() if not node.running
        ]
        for node in chosen:
            node.launch()
        for node in chosen:
            node.wait_until_ready(self._start_timeout_s)
        return self

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """In order: it hands over what it leads first."""
        self._node(node_id).stop(timeout_s)

    def kill(self, *node_ids: int) -> None:
        """As kill -9: connections end, nothing more is written, the others notice at once."""
        for node_id in node_ids:
            self._node(node_id).kill()

    def restart(self, node_id: int) -> None:
        """Start it again on its data, at its address; one that runs is stopped in order before."""
        node = self._node(node_id)
        if node.running:
            node.stop(self._start_timeout_s)
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """As SIGSTOP: connections stay open, and nobody answers."""
        self._node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """It goes on as if no time had passed."""
        self._node(node_id).resume()

    def partition(self, *node_ids: int, one_way: bool = False) -> None:
        """These nodes and the others do not hear each other any more; clients still reach all of them.

        ``one_way``: these hear the others, but are not heard.
        """
        apart = {self._node(each).node_id for each in node_ids}
        others = self._nodes.keys() - apart
        self._network.cut(apart, others)
        if not one_way:
            self._network.cut(others, apart)

    def heal(self) -> None:
        """All nodes hear each other again."""
        self._network.heal()

    def close(self) -> None:
        """End all nodes and remove the temporary folder. Nothing is kept, so nobody hands anything over."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _node(self, node_id: int) -> ClusterNode:
        node = self._nodes.get(node_id)
        if node is None:
            raise ClusterNodeFailed(f"there is no node {node_id}; the nodes are {self.node_ids}")
        return node

    def _runs(self, node_id: int) -> bool:
        return node_id in self._nodes and self._nodes[node_id].running

    def _awake(self) -> list[ClusterNode]:
        return [node for node in self._nodes.values() if node.is_ready and not node.paused]

    def _active_controller(self) -> int | None:
        """As the nodes say: one that is cut off may not know of its successor, whose epoch is later."""
        told = [node.ask(_who_leads) for node in self._awake()]
        epoch, leader_id = max(told, default=(-1, -1))
        return leader_id if self._runs(leader_id) and (epoch, leader_id) in told else None

    def _places(self) -> list[_Place]:
        """All partitions, as the active controller has them; none if there is no controller."""
        controller_id = self._active_controller()
        if controller_id is None or self._nodes[controller_id].paused:
            return []
        return self._nodes[controller_id].ask(_places_of)

    def _until(self, what: str, look: Callable[[], ResultT | None], timeout_s: float = 30.0) -> ResultT:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = look()
            if found is not None:
                return found
            time.sleep(_POLL_S)
        raise TimeoutError(f"not within {timeout_s:g} s: {what}")


class _Place(NamedTuple):
    topic: str
    partition: int
    leader_id: int
    in_sync: bool


def _who_leads(node: Node) -> tuple[int, int]:
    return node.raft.epoch, node.raft.leader_id


def _places_of(node: Node) -> list[_Place]:
    return [
        _Place(topic.name, index, partition.leader, set(partition.isr) == set(partition.replicas))
        for topic in node.metadata.image.topics.by_name.values()
        for index, partition in enumerate(topic.partitions)
    ]
