"""Families of the metadata quorum and, on the active controller, of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, single

if TYPE_CHECKING:
    from ruslo.broker.controller.driver import ControllerDriver
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.quorum.raft import RaftDriver


def quorum_families(raft: RaftDriver) -> Iterator[Family]:
    yield single(catalog.QUORUM_LEADER, raft.leader_id)
    yield single(catalog.QUORUM_EPOCH, raft.epoch)
    yield single(catalog.QUORUM_HIGH_WATERMARK, raft.high_watermark)
    yield single(catalog.QUORUM_END, raft.end_offset)


def controller_families(controller: ControllerDriver | None, metadata: MetadataLoader) -> Iterator[Family]:
    """Only the active controller counts, so that a sum over all nodes is right, as in Kafka."""
    active = controller is not None and controller.is_active
    yield single(catalog.ACTIVE_CONTROLLER, int(active))
    if controller is None:
        return
    offline = imbalanced = topics = partitions = unfenced = fenced = 0
    if active:
        image = metadata.image
        topics = len(image.topics.by_id)
        for _, _, partition in image.topics.partitions():
            partitions += 1
            offline += partition.leader < 0
            imbalanced += bool(partition.replicas) and partition.leader != partition.replicas[0]
        fenced = sum(broker.fenced for broker in image.cluster.brokers.values())
        unfenced = len(image.cluster.brokers) - fenced
    yield single(catalog.OFFLINE_PARTITIONS, offline)
    yield single(catalog.PREFERRED_IMBALANCE, imbalanced)
    yield single(catalog.UNCLEAN_ELECTIONS, controller.unclean_elections)
    yield single(catalog.GLOBAL_TOPICS, topics)
    yield single(catalog.GLOBAL_PARTITIONS, partitions)
    yield single(catalog.ACTIVE_BROKERS, unfenced)
    yield single(catalog.FENCED_BROKERS, fenced)
