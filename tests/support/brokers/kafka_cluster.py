"""Three Apache Kafka nodes with both roles: a real cluster to compare our tools and controller with."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ruslo.broker.node.format import QuorumOptions, format_storage
from ruslo.config.broker import BrokerConfig
from ruslo.model.ids import random_uuid, uuid_to_text
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import log_tails, random_cluster_id
from tests.support.network.ports import free_port, metadata_broker_count
from tests.support.tools.kafka_jars import TOOL_JAVA_OPTIONS

SMALL_JAVA_OPTIONS = (*TOOL_JAVA_OPTIONS, "-Xms48m", "-Xss512k")
SMALL_PROPERTIES = {
    # Tests decide when leadership moves.
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    # By default half of the small heap would go to this buffer.
    "log.cleaner.dedupe.buffer.size": "4194304",
}


class ApacheKafkaCluster:
    """``nodes`` by id: 1, 2, 3, in racks a, b, c; the voters are kept in the metadata log (KIP-853)."""

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        base: Mapping[str, str] = SMALL_PROPERTIES,
        java_options: Sequence[str] = SMALL_JAVA_OPTIONS,
    ) -> None:
        ids = (1, 2, 3)
        ports = {node_id: free_port() for node_id in ids}
        cluster_id = random_cluster_id()
        self.voters = ",".join(
            f"{node_id}@127.0.0.1:{ports[node_id]}:{uuid_to_text(random_uuid())}" for node_id in ids
        )
        quorum = {
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values())
        }
        self.nodes = {
            node_id: ApacheKafka(
                directory / f"node-{node_id}",
                properties=dict(base) | quorum | {"broker.rack": rack} | dict(properties or {}),
                cluster_id=cluster_id,
                node_id=node_id,
                controller_port=ports[node_id],
                java_options=java_options,
            )
            for node_id, rack in zip(ids, "abc", strict=True)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.process is not None)

    def start(self, timeout_s: float = 90) -> Self:
        """Ruslo formats the directories: that saves Java processes, and Kafka must accept them."""
        for node in self.nodes.values():
            format_storage(
                BrokerConfig.from_properties(node.server_properties()),
                cluster_id=node.cluster_id,
                quorum=QuorumOptions(initial_controllers=self.voters),
            )
            node.launch()
        try:
            for node_id in self.nodes:
                self.wait_for_brokers(len(self.nodes), node_id=node_id, timeout_s=timeout_s)
        except RuntimeError:
            self.stop()
            raise
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"the cluster did not start\n{self.log_tail(15)}") from None
        return self

    def wait_for_brokers(self, count: int, *, node_id: int = 1, timeout_s: float = 60) -> None:
        """Wait until a node lists this many brokers."""
        port = self.nodes[node_id].port
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for node in self.nodes.values():
                if node.process is not None and node.process.poll() is not None:
                    raise RuntimeError(f"node {node.node_id} has ended\n{node.log_tail()}")
            try:
                if metadata_broker_count("127.0.0.1", port) == count:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"node {node_id} did not name {count} brokers within {timeout_s:.0f} s")

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of each node's output."""
        return log_tails(self.nodes.values(), lines)

    def stop(self) -> None:
        # The data is deleted, so the nodes need no controlled shutdown.
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
