"""A real broker, or a whole cluster, for tests: those of users and our own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ruslo.testing.embedded import BrokerFailed, EmbeddedBroker

if TYPE_CHECKING:
    from ruslo.testing.cluster_node import ClusterNodeFailed
    from ruslo.testing.embedded_cluster import EmbeddedCluster

_MODULES = {
    "EmbeddedCluster": "ruslo.testing.embedded_cluster",
    "ClusterNodeFailed": "ruslo.testing.cluster_node",
}
__all__ = ["BrokerFailed", "ClusterNodeFailed", "EmbeddedBroker", "EmbeddedCluster"]


def __getattr__(name: str) -> object:
    """Import the embedded cluster on first use: it imports the whole broker."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
