"""Whom clients are told to be the controller."""

from __future__ import annotations

from ruslo.broker.drivers.metadata import MetadataDriver


def controller_id(metadata: MetadataDriver) -> int:
    """The active controller if it is a broker too, else a live broker, which passes requests on (KIP-590)."""
    live = [broker.id for broker in metadata.image.cluster.brokers.values() if not broker.fenced]
    if metadata.leader_id in live:
        return metadata.leader_id
    return min(live, default=-1)
