"""The properties of a node that is a whole cluster by itself, for development and tests."""

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
    """Port 0 lets the system choose one; what the caller overrides wins."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:0",
        "controller.listener.names": "CONTROLLER",
        # Asked for, but never used: the only controller is in the same process.
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:0",
        "log.dirs": str(data_dir),
        # One broker cannot hold the three copies that these topics have by default.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "ruslo.metrics.listener": f"{LOOPBACK}:0",
        # A group's first consumer starts at once instead of waiting three seconds for others.
        "group.initial.rebalance.delay.ms": "0",
        **(overrides or {}),
    }


def format_single_node(config: BrokerConfig) -> None:
    """Prepare the data directory unless it was prepared before."""
    from ruslo.broker.node.format import QuorumOptions, format_storage

    format_storage(config, quorum=QuorumOptions(standalone=True), ignore_formatted=True)
