"""A real broker, or a whole cluster, for tests: those of users and our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.testing.embedded import BrokerFailed, EmbeddedBroker

if TYPE_CHECKING:
    from ruslo.testing.cluster_node import ClusterNodeFailed
    from ruslo.testing.embedded_cluster import EmbeddedCluster

__all__ = ["BrokerFailed", "ClusterNodeFailed", "EmbeddedBroker", "EmbeddedCluster"]


def __getattr__(name: str) -> object:
    """Import the embedded cluster on first use: it imports the whole broker."""
    if name == "EmbeddedCluster":
        from ruslo.testing.embedded_cluster import EmbeddedCluster

        return EmbeddedCluster
    if name == "ClusterNodeFailed":
        from ruslo.testing.cluster_node import ClusterNodeFailed

        return ClusterNodeFailed
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
