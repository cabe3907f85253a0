"""A cluster of real processes, and faults of its nodes, their network and their disks."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.brokers.quorum import QuorumCluster, QuorumNode
from tests.support.clients.replicas import busiest_leader, wait_until_in_sync
from tests.support.faults.namespaces import Host, Namespaces, NotPermitted
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES

REPLICATION_FACTOR = 3
DISK_MB = int(os.environ.get("RUSLO_FAULT_DISK_MB", "512"))
PROPERTIES = {
    **GROUP_NODE_PROPERTIES,
    "default.replication.factor": str(REPLICATION_FACTOR),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(REPLICATION_FACTOR),
    "transaction.state.log.replication.factor": str(REPLICATION_FACTOR),
    "transaction.state.log.min.isr": "2",
    # Silent hosts are fenced sooner than by default, so faults can be shorter.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # The schedule decides which broker leads.
    "auto.leader.rebalance.enable": "false",
}


class FaultCluster:
    """``hosts``: network namespaces with disks; without them, networks and disks cannot fail."""

    def __init__(self, directory: Path, nodes: int, namespaces: Namespaces | None) -> None:
        self._namespaces = namespaces
        hosts = namespaces.hosts if namespaces is not None else []
        self._hosts: dict[int, Host] = dict(enumerate(hosts, 1))
        self.processes = QuorumCluster(
            directory, roles=("broker,controller",) * nodes, properties=PROPERTIES, hosts=hosts
        )
        for node_id, host in self._hosts.items():
            host.mount_disk(self._data_dir(node_id), DISK_MB)

    @property
    def node_ids(self) -> list[int]:
        return list(self.processes.nodes)

    @property
    def has_hosts(self) -> bool:
        return self._namespaces is not None

    @property
    def bootstrap(self) -> str:
        """All nodes, running or not: clients know the whole cluster."""
        return ",".join(node.bootstrap for node in self.processes.nodes.values())

    def node(self, node_id: int) -> QuorumNode:
        return self.processes.nodes[node_id]

    def controller(self) -> int:
        return self.processes.leader()

    def leader(self, topic: str) -> int:
        """The broker that leads most partitions of a topic."""
        return busiest_leader(self.processes.bootstrap, topic)

    def wait_until_in_sync(self, *topics: str) -> None:
        for topic in topics:
            wait_until_in_sync(self.processes.bootstrap, topic, REPLICATION_FACTOR)

    # -- processes -------------------------------------------------------------------------------------------

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.node(node_id).kill()

    def stop(self, node_id: int) -> None:
        self.node(node_id).stop()

    def start(self, *node_ids: int) -> None:
        self.processes.start([self.node(node_id) for node_id in node_ids])

    @contextlib.contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        pid = self.node(node_id).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    # -- networks and disks ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def partitioned(self, node_ids: Iterable[int], *, one_way: bool = False) -> Iterator[None]:
        """Partition these nodes from the others; ``one_way``: only what they send is lost."""
        assert self._namespaces is not None
        isolated = [self._hosts[each] for each in node_ids]
        others = [host for host in self._hosts.values() if host not in isolated]
        self._namespaces.block(isolated, others)
        if not one_way:
            self._namespaces.block(others, isolated)
        try:
            yield
        finally:
            self._namespaces.heal()

    @contextlib.contextmanager
    def full_disk(self, node_id: int) -> Iterator[None]:
        host, directory = self._hosts[node_id], self._data_dir(node_id)
        host.fill_disk(directory)
        try:
            yield
        finally:
            host.free_disk(directory)

    def has_ended(self, node_id: int) -> bool:
        """Whether the process has ended by itself; then it can be started again."""
        node = self.node(node_id)
        if node.process is None or node.process.poll() is None:
            return False
        node.process = None
        return True

    def _data_dir(self, node_id: int) -> Path:
        (directory,) = self.node(node_id).data_dirs
        return directory


@contextlib.contextmanager
def fault_cluster(directory: Path, nodes: int) -> Iterator[FaultCluster]:
    """A running cluster; in network namespaces if this machine allows them, otherwise on loopback."""
    with contextlib.ExitStack() as undo:
        namespaces: Namespaces | None = None
        with contextlib.suppress(NotPermitted):
            namespaces = undo.enter_context(Namespaces(nodes))
        cluster = FaultCluster(directory, nodes, namespaces)
        undo.enter_context(cluster.processes.start())
        yield cluster
