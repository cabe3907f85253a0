"""How a partition changes when its replicas come and go: the leader, the in-sync and the eligible replicas.

A reassignment that can be completed is completed first: once all replicas it aims at are in sync, those on
their way out leave. Then the leader is chosen by the first rule that gives one; "acceptable" is a replica
whose broker is unfenced, not stopping and has the replica's directory online.

=== =============================================================== ==================================
 0  asked for: the first replica, if in the ISR and acceptable        ISR as it is
 1  the present leader, if in the ISR and acceptable                  ISR as it is
 2  the first acceptable in replica order, in the ISR                 ISR as it is
 3  the ISR is empty: the first acceptable one in the ELR             ISR = leader
 4  both are empty: the first of the last known ELR whose data are    ISR = leader, recovering (KIP-966)
    not lost, if acceptable: the last leader, if it has them
 5  unclean election allowed: the first acceptable replica,           ISR = leader, recovering
    one that is only being added last; if it was asked for, even one
    that has lost its data
 6  nobody
=== =============================================================== ==================================

The ELR (KIP-966) holds those who left the ISR after it fell below min.insync.replicas: the high watermark
cannot have moved without them, so each has all committed records, as long as it stopped cleanly. The last
known ELR holds those who would be in the ELR, had they stopped cleanly; the leader at the time when the ISR
emptied comes first. A replica whose directory is LOST cannot prove what it had (``directories``).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.machines.controller.records import (
    DIRECTORY_ASSIGNMENT_SUPPORTED,
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
from ruslo.model.ids import LOST_DIR, UNASSIGNED_DIR, Uuid
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


class Election(enum.Enum):
    """What is wanted beyond a leader that can lead."""

    ANY = "whoever comes first by the rules"
    PREFERRED = "the first replica"
    UNCLEAN = "anybody who is alive, even if records are lost"


@dataclass(slots=True)
class PartitionChange:
    """Works out the record that takes a partition to its target; ``build`` gives None if nothing changes."""

    topic: TopicImage
    index: int
    partition: PartitionImage
    acceptable: Callable[[int], bool]
    lost: Set[int]
    """Replicas that have lost their data."""
    alive: Callable[[int], bool]
    """Whether a replica's broker is active, whatever its directories."""
    min_isr: int
    elr_enabled: bool
    unclean_election: bool
    metadata_version: int
    target_isr: tuple[int, ...]
    target_recovery_state: int
    default_dir: Callable[[int], Uuid]
    """In which directory a broker puts a replica that is new to it."""
    target_replicas: tuple[int, ...]
    target_adding: tuple[int, ...]
    target_removing: tuple[int, ...]
    unclean_stopped: int = NO_LEADER
    """A broker that came back without having stopped cleanly, or with another log in the place of the one it
    had: what it holds is not to be trusted."""
    election: Election = Election.ANY

    def build(self) -> tuple[PartitionChangeRecord, int] | None:
        partition = self.partition
        self._complete_reassignment()
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
        if record.leader == LEADER_UNCHANGED and not set(partition.replicas) <= set(self.target_replicas):
            # Who is no replica any more must not pass for one: the leader epoch fences what it still sends.
            record.leader = partition.leader
        self._note_replicas(record)
        last_known_elr = self._target_last_known_elr(isr, elr, leader, unclean=unclean)
        if last_known_elr != partition.last_known_elr:
            record.last_known_elr = list(last_known_elr)
        if _changes_nothing(record):
            return None
        return record, partition_record_version(self.metadata_version)

    def _complete_reassignment(self) -> None:
        if not self.target_adding and not self.target_removing:
            return
        replicas = tuple(each for each in self.target_replicas if each not in self.target_removing)
        isr = tuple(each for each in self.target_isr if each not in self.target_removing)
        if isr and set(replicas) <= set(isr):
            self.target_replicas, self.target_isr = replicas, isr
            self.target_adding = self.target_removing = ()

    def _note_replicas(self, record: PartitionChangeRecord) -> None:
        partition = self.partition
        if self.target_replicas != partition.replicas:
            record.replicas = list(self.target_replicas)
            if self.metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
                known = dict(zip(partition.replicas, partition.directories, strict=True))
                record.directories = [
                    known[replica] if replica in known else self.default_dir(replica)
                    for replica in self.target_replicas
                ]
        if self.target_adding != partition.adding:
            record.adding_replicas = list(self.target_adding)
        if self.target_removing != partition.removing:
            record.removing_replicas = list(self.target_removing)

    def _target_elr(self) -> tuple[int, ...]:
        if len(self.target_isr) >= min(self.min_isr, len(self.target_replicas)):
            return ()
        if not self.elr_enabled and (self.target_isr or self.partition.isr):
            # Who was eligible when the ELR was switched off is so only as long as nobody is in sync.
            return ()
        return tuple(
            replica
            for replica in sorted({*self.partition.elr, *self.partition.isr})
            if replica not in self.target_isr
            and replica in self.target_replicas
            and replica != self.unclean_stopped
        )

    def _elect(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
        partition, acceptable = self.partition, self.acceptable
        electable = isr or elr
        first = self.target_replicas[0]
        if self.election is Election.PREFERRED and first in electable and acceptable(first):
            return first, False
        if partition.leader in electable and acceptable(partition.leader):
            return partition.leader, False
        for replica in self.target_replicas:
            if replica in electable and acceptable(replica):
                return replica, False
        if not electable:
            # One that has not lost its data is worth waiting for.
            candidate = next((each for each in partition.last_known_elr if each not in self.lost), NO_LEADER)
            if acceptable(candidate):
                return candidate, True
        if self.unclean_election or self.election is Election.UNCLEAN:
            # Who is only being added may have nothing of the log yet.
            for replica in sorted(self.target_replicas, key=self.target_adding.__contains__):
                if acceptable(replica):
                    return replica, True
        if self.election is Election.UNCLEAN:
            for replica in self.target_replicas:
                if replica in self.lost and self.alive(replica):
                    return replica, True
        return NO_LEADER, False

    def _target_last_known_elr(
        self, isr: tuple[int, ...], elr: tuple[int, ...], leader: int, *, unclean: bool
    ) -> tuple[int, ...]:
        partition, known = self.partition, self.partition.last_known_elr
        if not self.elr_enabled:
            return () if leader != NO_LEADER else known
        if unclean or len(isr) >= min(self.min_isr, len(self.target_replicas)):
            return ()
        left = (each for each in sorted({*partition.elr, *partition.isr}) if each not in elr)
        candidates = (*known, *left)
        if not isr and partition.isr:
            # If there was no leader, the ELR was off: then the last leader stayed in the ISR.
            last = partition.leader if partition.leader != NO_LEADER else partition.isr[0]
            candidates = (last, *candidates)
        return tuple(
            each
            for each in dict.fromkeys(candidates)
            if each in self.target_replicas
            and each not in isr
            # With a leader there is another log than the lost one to go on with.
            and not (leader != NO_LEADER and each in self.lost)
        )


class Reassignment(NamedTuple):
    """Where a partition's replicas are to go; ``replicas`` are all that hold it on the way."""

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
    unclean_stopped: int = NO_LEADER,
    target_isr: tuple[int, ...] | None = None,
    target_recovery_state: int | None = None,
    reassignment: Reassignment | None = None,
    election: Election = Election.ANY,
    found_in: tuple[int, Uuid] | None = None,
    begun_anew: int = NO_LEADER,
    clean_only: bool = False,
) -> VersionedRecord | None:
    """The change of one partition after ``without`` have left, or ``joining`` is about to be unfenced.

    ``found_in``: a replica, and the directory in which its broker says that it lies.
    ``begun_anew``: a replica that has lost the log it had; it may lead, but not because of what it had.
    ``clean_only``: nobody may lead who may lack records, even if the topic allows that.
    """
    partition = topic.partitions[index]
    brokers = state.image.cluster.brokers
    leaving = {*without, unclean_stopped}
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
            # A replica that is only just being added lies in none yet.
            and (replica not in directories or broker.has_online_dir(directories[replica]))
        )

    def default_dir(replica: int) -> Uuid:
        broker = brokers.get(replica)
        return UNASSIGNED_DIR if broker is None else broker.default_dir()

    aims = reassignment or Reassignment(partition.replicas, partition.adding, partition.removing)

    if target_isr is None:
        target_isr = tuple(replica for replica in partition.isr if replica not in leaving)
    return PartitionChange(
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
        unclean_stopped=unclean_stopped if begun_anew == NO_LEADER else begun_anew,
        default_dir=default_dir,
        target_replicas=aims.replicas,
        target_adding=aims.adding,
        target_removing=aims.removing,
        election=election,
    ).build()


def changes_for_leaving_broker(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker is fenced or stopping: it leaves every ISR and leads nothing any more."""
    return _changes(
        change_partition(state, topic, index, without=(broker_id,))
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr
    )


def changes_for_lost_directories(
    state: ControllerState, broker_id: int, directories: Set[Uuid]
) -> Iterator[VersionedRecord]:
    """The broker goes on, but without the replicas in these directories (KIP-858)."""
    return _changes(
        change_partition(state, topic, index, without=(broker_id,))
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr and partition.directory_of(broker_id) in directories
    )


def changes_for_unclean_stop(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker came back after a crash: out of every ISR and ELR."""
    return _changes(
        change_partition(state, topic, index, unclean_stopped=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if broker_id in partition.isr or broker_id in partition.elr
    )


def changes_for_joining_broker(state: ControllerState, broker_id: int) -> Iterator[VersionedRecord]:
    """The broker is being unfenced: it may lead partitions that have no leader."""
    return _changes(
        change_partition(state, topic, index, joining=broker_id)
        for topic, index, partition in state.image.topics.partitions()
        if partition.leader == NO_LEADER and broker_id in partition.replicas
    )


def _changes(changes: Iterable[VersionedRecord | None]) -> Iterator[VersionedRecord]:
    return (change for change in changes if change is not None)


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_UNCHANGED
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader_recovery_state == -1
        and record.replicas is None
        and record.adding_replicas is None
        and record.removing_replicas is None
    )
