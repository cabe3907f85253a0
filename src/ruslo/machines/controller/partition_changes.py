"""The partition changes that follow from requests and from brokers that join, leave or lose directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from ruslo.machines.controller.partition_change_builder import Election, PartitionChangeBuilder
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerState
from ruslo.machines.controller.topic_image import NO_LEADER, TopicImage
from ruslo.model.ids import LOST_DIR, UNASSIGNED_DIR, Uuid


class Reassignment(NamedTuple):
    """The target of a reassignment; ``replicas`` are all that hold the partition meanwhile."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def change_partition(
    state: ControllerState,
    topic: TopicImage,
    index: int,
    *,
    without: Iterable[int] = (),
    joining: int = NO_LEADER,
    unclean_shutdown: int = NO_LEADER,
    target_isr: tuple[int, ...] | None = None,
    target_recovery_state: int | None = None,
    reassignment: Reassignment | None = None,
    election: Election = Election.ANY,
    found_in: tuple[int, Uuid] | None = None,
    restarted_empty: int = NO_LEADER,
    clean_only: bool = False,
) -> VersionedRecord | None:
    """The change of one partition after ``without`` have left, or when ``joining`` is about to be unfenced.

    ``found_in``: a replica and the directory that its broker reported.
    ``restarted_empty``: a replica that has lost its log; it may lead, but not because of its former data.
    ``clean_only``: no unclean election, even if the topic allows it.
    """
    partition = topic.partitions[index]
    brokers = state.image.cluster.brokers
    leaving = {*without, unclean_shutdown}
    directories = dict(zip(partition.replicas, partition.directories, strict=True))
    if found_in is not None:
        directories[found_in[0]] = found_in[1]

    def alive(replica: int) -> bool:
        broker = brokers.get(replica)
        return broker is not None and (replica == joining or broker.active)

    def acceptable(replica: int) -> bool:
        broker = brokers.get(replica)
        return (
            broker is not None
            and replica not in leaving
            and alive(replica)
            # A replica that is being added has no directory yet.
            and (replica not in directories or broker.has_online_dir(directories[replica]))
        )

    def default_dir(replica: int) -> Uuid:
        broker = brokers.get(replica)
        return UNASSIGNED_DIR if broker is None else broker.default_dir()

    target = reassignment or Reassignment(partition.replicas, partition.adding, partition.removing)

    if target_isr is None:
        target_isr = tuple(replica for replica in partition.isr if replica not in leaving)
    return PartitionChangeBuilder(
        topic=topic,
        index=index,
        partition=partition,
        acceptable=acceptable,
        lost={replica for replica, directory in directories.items() if directory == LOST_DIR},
        alive=alive,
        min_isr=state.min_insync_replicas(topic.name),
        elr_enabled=state.elr_enabled,
        unclean_election=not clean_only and state.unclean_leader_election(topic.name),
        metadata_version=state.metadata_version,
        target_isr=target_isr,
        target_recovery_state=(
            partition.recovery_state if target_recovery_state is None else target_recovery_state
        ),
        unclean_shutdown=unclean_shutdown if restarted_empty == NO_LEADER else restarted_empty,
        default_dir=default_dir,
        target_replicas=target.replicas,
        target_adding=target.adding,
        target_removing=target.removing,
        election=election,
    ).build()


def changes_for_leaving_broker(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker is fenced or shutting down: it leaves every ISR and leads no partition."""
    return _changes(
        change_partition(state, topic, index, without=(broker_id,))
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr
    )


def changes_for_lost_directories(
    state: ControllerState, broker_id: int, directories: Set[Uuid]
) -> Iterator[VersionedRecord]:
    """The broker continues without the replicas in these directories (KIP-858)."""
    return _changes(
        change_partition(state, topic, index, without=(broker_id,))
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr and partition.directory_of(broker_id) in directories
    )


def changes_for_unclean_shutdown(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker returned after a crash: it leaves every ISR and ELR."""
    return _changes(
        change_partition(state, topic, index, unclean_shutdown=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr or broker_id in partition.elr
    )


def changes_for_joining_broker(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker is about to be unfenced: it may lead partitions without a leader."""
    return _changes(
        change_partition(state, topic, index, joining=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if partition.leader == NO_LEADER and broker_id in partition.replicas
    )


def _changes(changes: Iterable[VersionedRecord | None]) -> Iterator[VersionedRecord]:
    return (change for change in changes if change is not None)
