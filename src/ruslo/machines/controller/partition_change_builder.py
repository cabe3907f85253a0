"""Builds the change of a partition: its leader, ISR, ELR and replicas.

A reassignment whose target replicas are all in sync is completed first. Then the first rule that gives a
leader elects it. A replica is acceptable if its broker is unfenced, not shutting down, and has its directory
online.

=== =============================================================== ==================================
 0  preferred election: the first replica, if in the ISR, acceptable  ISR unchanged
 1  the current leader, if in the ISR and acceptable                  ISR unchanged
 2  the first acceptable replica in the ISR                           ISR unchanged
 3  the ISR is empty: the first acceptable replica in the ELR         ISR = leader
 4  both are empty: the first of the last known ELR that has not      ISR = leader, recovering (KIP-966)
    lost its data, if acceptable
 5  unclean election allowed: the first acceptable replica, adding    ISR = leader, recovering
    ones last; if it was requested, even one that has lost its data
 6  no leader
=== =============================================================== ==================================

The ELR (KIP-966) holds replicas that left the ISR after it fell below min.insync.replicas: the high watermark
cannot have advanced without them, so each has all committed records if it shut down cleanly. The last known
ELR holds replicas that would be in the ELR after a clean shutdown; the leader of the moment when the ISR
emptied comes first. A replica whose directory is LOST cannot prove what it had (``directories``).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Set
from dataclasses import dataclass

from ruslo.machines.controller.records import (
    DIRECTORY_ASSIGNMENT_SUPPORTED,
    FENCED_REPLICAS_LEAVE_ISR_QUIETLY,
    partition_record_version,
)
from ruslo.machines.controller.topic_image import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    PartitionImage,
    TopicImage,
)
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord


class Election(enum.Enum):
    """The kind of election that was requested."""

    ANY = "the first by the rules"
    PREFERRED = "the first replica"
    UNCLEAN = "any live replica, even if records are lost"


@dataclass(slots=True)
class PartitionChangeBuilder:
    """Builds the record that takes a partition to its target; None if nothing changes."""

    topic: TopicImage
    index: int
    partition: PartitionImage
    acceptable: Callable[[int], bool]
    lost: Set[int]
    """Replicas whose data is lost."""
    alive: Callable[[int], bool]
    """Whether a replica's broker is active, regardless of its directories."""
    min_isr: int
    elr_enabled: bool
    unclean_election: bool
    metadata_version: int
    target_isr: tuple[int, ...]
    target_recovery_state: int
    default_dir: Callable[[int], Uuid]
    """The directory of a new replica on this broker."""
    target_replicas: tuple[int, ...]
    target_adding: tuple[int, ...]
    target_removing: tuple[int, ...]
    unclean_shutdown: int = NO_LEADER
    """A broker that returned after an unclean shutdown, or with another log in place of the one it had: its
    data is not trusted."""
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
            # Without ELR the last ISR member is the only record of which replica has the data.
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
            # A removed replica must not count as one: the leader epoch fences its requests.
            record.leader = partition.leader
        self._note_replicas(record)
        last_known_elr = self._target_last_known_elr(isr, elr, leader, unclean=unclean)
        if last_known_elr != partition.last_known_elr:
            record.last_known_elr = list(last_known_elr)
        if _is_empty(record):
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
            # With ELR disabled, earlier entries count only while no replica is in sync.
            return ()
        return tuple(
            replica
            for replica in sorted({*self.partition.elr, *self.partition.isr})
            if replica not in self.target_isr
            and replica in self.target_replicas
            and replica != self.unclean_shutdown
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
            # Wait for a replica that has not lost its data.
            candidate = next((each for each in partition.last_known_elr if each not in self.lost), NO_LEADER)
            if acceptable(candidate):
                return candidate, True
        if self.unclean_election or self.election is Election.UNCLEAN:
            # An adding replica may have nothing of the log yet.
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
            # Without a leader ELR was disabled: then the last leader stayed in the ISR.
            last = partition.leader if partition.leader != NO_LEADER else partition.isr[0]
            candidates = (last, *candidates)
        return tuple(
            each
            for each in dict.fromkeys(candidates)
            if each in self.target_replicas
            and each not in isr
            # With a leader the partition continues with its log instead of the lost one, and a member of the
            # ELR needs no second entry: it gets one when it leaves the ELR.
            and not (leader != NO_LEADER and (each in self.lost or each in elr))
        )


def _is_empty(record: PartitionChangeRecord) -> bool:
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
