"""Properties of a single-node cluster, for development and tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig

LOOPBACK = "127.0.0.1"


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
        "ruslo.metrics.listener": f"{LOOPBACK}:0",
        # The first consumer of a group starts at once instead of waiting three seconds for more members.
        "group.initial.rebalance.delay.ms": "0",
        **(overrides or {}),
    }


def format_single_node(config: BrokerConfig) -> None:
    """Format the data directory unless it is already formatted."""
    from ruslo.broker.node.format import QuorumOptions, format_storage

    format_storage(config, quorum=QuorumOptions(standalone=True), ignore_formatted=True)
