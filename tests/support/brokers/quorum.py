"""Several nodes of Ruslo that form one cluster, each in its own process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.quorum import Quorum
from ruslo.model.errors import KafkaError
from ruslo.model.ids import random_uuid, uuid_to_text
from tests.support.brokers.node import LOCAL_HOST, NodeHost, log_tails, random_cluster_id
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.ports import free_port

ResultT = TypeVar("ResultT")

FAST = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
}


def properties_for_roles(
    roles: str, port: int, controller_port: int, address: str = LOCAL_HOST.address
) -> dict[str, str]:
    """Properties of a node of Ruslo or of Apache Kafka with one role or both."""
    listeners = {
        "broker": f"PLAINTEXT://{address}:{port}",
        "controller": f"CONTROLLER://{address}:{controller_port}",
    }
    chosen = roles.split(",")
    properties = {
        "process.roles": roles,
        "listeners": ",".join(text for role, text in listeners.items() if role in chosen),
    }
    if "broker" not in chosen:
        properties["advertised.listeners"] = listeners["controller"]
    return properties


class QuorumNode(RusloNode):
    """A node whose voters are all nodes of its cluster, or that joins a cluster as an observer."""

    def __init__(
        self,
        directory: Path,
        *,
        node_id: int,
        cluster_id: str,
        port: int,
        controller_port: int,
        properties: Mapping[str, str],
        roles: str = "broker,controller",
        format_options: Sequence[str] = (),
        data_dirs: Sequence[Path] | None = None,
        host: NodeHost = LOCAL_HOST,
    ) -> None:
        self.roles = roles
        self._format_options = list(format_options)
        super().__init__(
            directory,
            data_dirs=data_dirs,
            properties=properties_for_roles(roles, port, controller_port, host.address) | dict(properties),
            quorum="static",
            cluster_id=cluster_id,
            node_id=node_id,
            port=port,
            controller_port=controller_port,
            host=host,
        )

    def server_properties(self) -> dict[str, str]:
        properties = super().server_properties()
        if "controller.quorum.bootstrap.servers" in properties:
            del properties["controller.quorum.voters"]
        return properties

    def format(self) -> None:
        self.format_with(self._format_options)

    def start(self, timeout_s: float = 60) -> Self:
        if "broker" in self.roles:
            return super().start(timeout_s)
        self.launch()
        return self


class QuorumCluster:
    """``dynamic``: the voters are in the log (kraft.version 1), otherwise in ``controller.quorum.voters``."""

    node_type: ClassVar[type[QuorumNode]] = QuorumNode

    def __init__(
        self,
        directory: Path,
        *,
        roles: Sequence[str] = ("broker,controller",) * 3,
        dynamic: bool = False,
        properties: Mapping[str, str] | None = None,
        data_dirs: int = 1,
        hosts: Sequence[NodeHost] = (),
    ) -> None:
        """``hosts``: the hosts of the nodes, in order; by default this host."""
        self.directory = directory
        self._data_dirs = data_dirs
        self.dynamic = dynamic
        self._hosts = dict(enumerate(hosts, 1))
        self.cluster_id = random_cluster_id()
        self.nodes: dict[int, QuorumNode] = {}
        self._properties = FAST | dict(properties or {})
        ids = range(1, len(roles) + 1)
        ports = {node_id: (free_port(), free_port()) for node_id in ids}
        voters = [node_id for node_id in ids if "controller" in roles[node_id - 1]]
        if dynamic:
            servers = ",".join(f"{self._address(node_id)}:{ports[node_id][1]}" for node_id in voters)
            self._quorum = {"controller.quorum.bootstrap.servers": servers}
            listed = ",".join(
                f"{node_id}@{self._address(node_id)}:{ports[node_id][1]}:{uuid_to_text(random_uuid())}"
                for node_id in voters
            )
            first_options = ["--initial-controllers", listed]
        else:
            listed = ",".join(f"{node_id}@{self._address(node_id)}:{ports[node_id][1]}" for node_id in voters)
            self._quorum = {"controller.quorum.voters": listed}
            first_options = []
        for node_id, role in zip(ids, roles, strict=True):
            is_voter = node_id in voters
            options = first_options if is_voter else (["--no-initial-controllers"] if dynamic else [])
            self._add(node_id, role, *ports[node_id], options)

    def _add(
        self,
        node_id: int,
        roles: str,
        port: int,
        controller_port: int,
        options: Sequence[str],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        directory = self.directory / f"node-{node_id}"
        self.nodes[node_id] = self.node_type(
            directory,
            data_dirs=[directory / f"data{number or ''}" for number in range(self._data_dirs)],
            node_id=node_id,
            cluster_id=self.cluster_id,
            port=port,
            controller_port=controller_port,
            properties=self._properties | self._quorum | dict(properties or {}),
            roles=roles,
            format_options=options,
            host=self._hosts.get(node_id, LOCAL_HOST),
        )

    def _address(self, node_id: int) -> str:
        return self._hosts.get(node_id, LOCAL_HOST).address

    def add(self, roles: str, properties: Mapping[str, str] | None = None) -> QuorumNode:
        """Add a node without starting it; a controller becomes a voter only by a request."""
        node_id = max(self.nodes) + 1
        self._add(node_id, roles, free_port(), free_port(), ["--no-initial-controllers"], properties)
        return self.nodes[node_id]

    @property
    def brokers(self) -> list[QuorumNode]:
        return [node for node in self.nodes.values() if "broker" in node.roles]

    @property
    def running_brokers(self) -> list[QuorumNode]:
        return [node for node in self.brokers if node.process is not None]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.running_brokers)

    def start(self, nodes: Iterable[QuorumNode] | None = None) -> Self:
        started = list(self.nodes.values() if nodes is None else nodes)
        for node in started:
            node.launch()
        for node in started:
            if "broker" in node.roles:
                node.wait_until_ready()
        return self

    def admin(self) -> Admin:
        """A client that gives up early: a test asks again."""
        return Admin(self.bootstrap, api_timeout_ms=2_000)

    def quorum(self) -> Quorum:
        """The quorum as a running broker describes it."""

        async def describe() -> Quorum:
            async with self.admin() as admin:
                return await admin.quorum.describe()

        return asyncio.run(describe())

    def leader(self, *, other_than: int | None = None, timeout_s: float = 90) -> int:
        """The id of the active controller; waits for one."""

        def found() -> int | None:
            with suppress(KafkaError):
                leader_id = self.quorum().leader_id
                if leader_id >= 0 and leader_id != other_than:
                    return leader_id
            return None

        return self.until(found, timeout_s)

    def until(self, found: Callable[[], ResultT | None], timeout_s: float = 90) -> ResultT:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            result = found()
            if result is not None:
                return result
            time.sleep(0.02)
        raise TimeoutError(f"not within {timeout_s:.0f} s. Last log lines:\n{self.log_tail(15)}")

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of each node's output."""
        return log_tails(self.nodes.values(), lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()
