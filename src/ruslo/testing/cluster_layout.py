"""Properties of a single node, and of a cluster on one machine whose nodes are broker and controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.clock import Clock
from ruslo.testing.ports import LOOPBACK

if TYPE_CHECKING:
    from ruslo.broker.node.format import QuorumOptions
    from ruslo.config.broker import BrokerConfig
    from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

DEFAULT_REPLICAS = 3


def single_node_properties(
    data_dir: Path, *, port: int = 0, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The properties of a broker and controller. Port 0 takes a free port."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:0",
        "controller.listener.names": "CONTROLLER",
        # Required but unused: the only controller is in the same process.
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:0",
        "log.dirs": str(data_dir),
        # One broker cannot host the three replicas that these topics have by default.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "ruslo.metrics.listener": f"{LOOPBACK}:0",
        # The first consumer of a group starts at once instead of waiting three seconds for more members.
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        **(overrides or {}),
    }


def format_single_node(config: BrokerConfig) -> None:
    """Format the data directory unless it is already formatted."""
    from ruslo.broker.node.format import QuorumOptions, format_storage

    format_storage(config, quorum=QuorumOptions(standalone=True), ignore_formatted=True)


class NodePorts(NamedTuple):
    broker: int
    controller: int


def cluster_properties(
    data_dir: Path,
    ports: Sequence[NodePorts],
    *,
    racks: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """The properties of each node, with IDs from 1. Voters are listed by address, so ports must be known.

    ``racks`` are the racks of the nodes; by default each node has its own rack.
    """
    voters = ",".join(f"{at}@{LOOPBACK}:{each.controller}" for at, each in enumerate(ports, 1))
    replicas = min(DEFAULT_REPLICAS, len(ports))
    return [
        {
            "process.roles": "broker,controller",
            "node.id": str(at),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{each.broker},CONTROLLER://{LOOPBACK}:{each.controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(data_dir / f"node-{at}"),
            "broker.rack": racks[at - 1] if racks else f"rack-{at}",
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
            "ruslo.metrics.listener": f"{LOOPBACK}:0",
            # The first consumer of a group starts at once instead of waiting three seconds for more members.
            "group.initial.rebalance.delay.ms": "0",
            "group.streams.initial.rebalance.delay.ms": "0",
            **(overrides or {}),
        }
        for at, each in enumerate(ports, 1)
    ]


def format_cluster(
    configs: Sequence[BrokerConfig],
    quorum: QuorumOptions | None = None,
    *,
    cluster_id: str | None = None,
    users: Sequence[UserScramCredentialRecord] = (),
    clock: Clock | None = None,
) -> str:
    """Format all data directories that are not formatted yet; return the cluster ID.

    ``quorum`` is set if the voters are stored in the metadata log instead of the properties. ``users`` are
    the SCRAM users of a new cluster.
    """
    from ruslo.broker.node.format import format_storage

    for config in configs:
        cluster_id = format_storage(
            config, cluster_id=cluster_id, quorum=quorum, users=users, ignore_formatted=True, clock=clock
        ).cluster_id
    assert cluster_id is not None, "a cluster has nodes"
    return cluster_id
