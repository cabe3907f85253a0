"""How a partition changes when its replicas come and go: the leader, the in-sync and the eligible replicas.

The leader is chosen by the first rule that gives one; "acceptable" is a replica whose broker is unfenced, not
stopping and has the replica's directory online.

=== =============================================================== ==================================
 1  the present leader, if in the ISR and acceptable                  ISR as it is
 2  the first acceptable in replica order, in the ISR                 ISR as it is
 3  the ISR is empty: the first acceptable one in the ELR             ISR = leader
 4  both are empty: the last known leader, if acceptable              ISR = leader, recovering (KIP-966)
 5  unclean election allowed: the first acceptable replica            ISR = leader, recovering
 6  nobody
=== =============================================================== ==================================

The ELR (KIP-966) holds those who left the ISR after it fell below min.insync.replicas: the high watermark
cannot have moved without them, so each has all committed records, as long as it stopped cleanly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ruslo.machines.controller.records import (
    FENCED_REPLICAS_LEAVE_ISR_QUIETLY,
    VersionedRecord,
    partition_record_version,
)
from ruslo.machines.controller.state import ControllerState
from ruslo.machines.controller.topic_image import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    PartitionImage,
    TopicImage,
)
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


@dataclass(slots=True)
class PartitionChange:
    """Works out the record that takes a partition to its target; ``build`` gives None if nothing changes."""

    topic: TopicImage
    index: int
    partition: PartitionImage
    acceptable: Callable[[int], bool]
    min_isr: int
    elr_enabled: bool
    unclean_election: bool
    metadata_version: int
    target_isr: tuple[int, ...]
    target_recovery_state: int
    unclean_stopped: int = NO_LEADER
    """A broker that came back without having stopped cleanly: what it holds is not to be trusted."""

    def build(self) -> tuple[PartitionChangeRecord, int] | None:
        partition = self.partition
        isr, elr = self.target_isr, self._target_elr()
        leader, unclean = self._elect(isr, elr)
        recovery_state = self.target_recovery_state
        if unclean:
            isr, elr, recovery_state = (leader,), (), RECOVERING
        elif leader in elr:
            isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
        if not isr and not self.elr_enabled:
            # Without an ELR the last member of the ISR is the only memory of who has the data.
            isr = partition.isr
        record = PartitionChangeRecord(topic_id=self.topic.id, partition_id=self.index)
        if leader != partition.leader:
            record.leader = leader
        if isr != partition.isr:
            record.isr = list(isr)
            if (
                record.leader == LEADER_UNCHANGED
                and self.metadata_version < FENCED_REPLICAS_LEAVE_ISR_QUIETLY
                and not set(partition.isr) <= set(isr)
            ):
                record.leader = partition.leader
        if elr != partition.elr:
            record.eligible_leader_replicas = list(elr)
        if recovery_state != partition.recovery_state:
            record.leader_recovery_state = recovery_state
        self._remember_last_leader(record, leader)
        if _changes_nothing(record):
            return None
        return record, partition_record_version(self.metadata_version)

    def _target_elr(self) -> tuple[int, ...]:
        if not self.elr_enabled or len(self.target_isr) >= min(self.min_isr, len(self.partition.replicas)):
            return ()
        candidates = dict.fromkeys((*self.partition.elr, *self.partition.isr))
        return tuple(
            replica
            for replica in candidates
            if replica not in self.target_isr and replica != self.unclean_stopped
        )

    def _elect(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        partition, acceptable = self.partition, self.acceptable
        electable = isr or elr
        if partition.leader in electable and acceptable(partition.leader):
            return partition.leader, False
        for replica in partition.replicas:
            if replica in electable and acceptable(replica):
                return replica, False
        if self.elr_enabled and not electable and len(partition.last_known_elr) == 1:
            last_leader = partition.last_known_elr[0]
            if acceptable(last_leader):
                return last_leader, True
        if self.unclean_election:
            for replica in partition.replicas:
                if acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _remember_last_leader(self, record: PartitionChangeRecord, leader: int) -> None:
        """LastKnownElr holds the leader that was there when the ISR emptied, until there is one again."""
        if not self.elr_enabled:
            return
        known = self.partition.last_known_elr
        if record.isr == [] and self.partition.leader != NO_LEADER:
            if known != (self.partition.leader,):
                record.last_known_elr = [self.partition.leader]
        elif leader != NO_LEADER and known:
            record.last_known_elr = []


def change_partition(
    state: ControllerState,
    topic: TopicImage,
    index: int,
    *,
    without: Iterable[int] = (),
    joining: int = NO_LEADER,
    unclean_stopped: int = NO_LEADER,
    target_isr: tuple[int, ...] | None = None,
    target_recovery_state: int | None = None,
) -> VersionedRecord | None:
    """The change of one partition after ``without`` have left, or ``joining`` is about to be unfenced."""
    partition = topic.partitions[index]
    brokers = state.image.cluster.brokers
    leaving = {*without, unclean_stopped}

    def acceptable(replica: int) -> bool:
        broker = brokers.get(replica)
        return (
            broker is not None
            and replica not in leaving
            and (replica == joining or broker.active)
            and broker.has_online_dir(partition.directory_of(replica))
        )

    if target_isr is None:
        target_isr = tuple(replica for replica in partition.isr if replica not in leaving)
    return PartitionChange(
        topic=topic,
        index=index,
        partition=partition,
        acceptable=acceptable,
        min_isr=state.min_insync_replicas(topic.name),
        elr_enabled=state.elr_enabled,
        unclean_election=state.unclean_leader_election(topic.name),
        metadata_version=state.metadata_version,
        target_isr=target_isr,
        target_recovery_state=(
            partition.recovery_state if target_recovery_state is None else target_recovery_state
        ),
        unclean_stopped=unclean_stopped,
    ).build()


def changes_for_leaving_broker(state: ControllerState, broker_id: int) -> list[VersionedRecord]:
    """The broker is fenced or stopping: it leaves every ISR and leads nothing any more."""
    return _changes(
        change_partition(state, topic, index, without=(broker_id,))
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr
    )


def changes_for_unclean_stop(state: ControllerState, broker_id: int) -> list[VersionedRecord]:
    """The broker came back after a crash: out of every ISR and ELR."""
    return _changes(
        change_partition(state, topic, index, unclean_stopped=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr or broker_id in partition.elr
    )


def changes_for_joining_broker(state: ControllerState, broker_id: int) -> list[VersionedRecord]:
    """The broker is being unfenced: it may lead partitions that have no leader."""
    return _changes(
        change_partition(state, topic, index, joining=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if partition.leader == NO_LEADER and broker_id in partition.replicas
    )


def _changes(changes: Iterable[VersionedRecord | None]) -> list[VersionedRecord]:
    return [change for change in changes if change is not None]


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_UNCHANGED
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader_recovery_state == -1
    )
