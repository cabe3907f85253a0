"""Mutants: classic bugs, injected into the product by ``-m tests.support.machines.mutants NAME FIRST-LAST``.

The simulation runs these seeds until an invariant breaks and prints its name; it exits with 1 if none breaks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from typing import NamedTuple

from ruslo.broker.controller.broker_lifecycle import BrokerLifecycle
from ruslo.broker.partitions import compaction
from ruslo.broker.partitions.ack_wait import AckWait, Appended
from ruslo.broker.partitions.compaction import Compaction
from ruslo.broker.partitions.fetcher import ReplicaFetcher
from ruslo.broker.partitions.lost_replicas import LostReplicas
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.quorum import quorum_state_file
from ruslo.machines.controller import alter_partition as controller_partitions
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.partition_change_builder import PartitionChangeBuilder
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerState
from ruslo.machines.controller.topic_image import PartitionImage, TopicImage
from ruslo.machines.groups.consumer import heartbeat as group_heartbeat
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.raft import leading
from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.voters import VoterSet
from ruslo.machines.replica.follower import Follower
from ruslo.machines.replica.leader import LeaderReplica
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import INTERNAL_TOPICS
from ruslo.net.connection import Connection
from ruslo.protocol.messages.alter_partition_request import PartitionData as ProposedPartition
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.producer_ids_record import ProducerIdsRecord
from ruslo.storage import retention, segment_recovery
from ruslo.storage.cleaner.cleanable import Cleanable, find_cleanable
from ruslo.storage.disk import Disk
from ruslo.storage.log import Log
from ruslo.storage.segment import Segment
from ruslo.testing.simulation.nodes.clients.group_member import ALL_RESPONDED
from ruslo.testing.simulation.nodes.clients.pipeliner import ENDS_INCREASE
from ruslo.testing.simulation.nodes.committed_log import LAST_OF_KEY_KEPT, NO_GAPS
from ruslo.testing.simulation.nodes.invariants import (
    ACKED_KEPT,
    ISR_HAS_COMMITTED,
    MIN_ISR_COPIES,
    NEVER_TRUNCATED,
    NO_LOST_WAKE_UP,
    ONLY_EXPIRED_DELETED,
    OWN_EPOCH,
    PAGE_CACHE_KEPT,
    REPLICA_KEPT,
    SEQUENCES,
)
from ruslo.testing.simulation.nodes.metadata_invariants import REASSIGNMENT_COMPLETES, SNAPSHOT_EQUALS_LOG
from ruslo.testing.simulation.nodes.runs import exit_immediately, run_seeds
from ruslo.testing.simulation.raft.invariants import (
    COMMITTED_KEPT,
    LOGS_AGREE,
    ONE_LEADER,
    PROGRESS,
    VOTE_ONCE,
)


def commit_records_of_old_epochs() -> None:
    """Ignore Raft §5.4.2: a majority is enough, whichever leader wrote the record."""

    def advance(node: QuorumNode) -> None:
        if isinstance(node.role, Leader):
            node.high_watermark = max(
                node.high_watermark,
                node.role.majority_offset(node.voters, node.key, node.log.flushed_offset),
            )
            leading.complete_waiting_fetches(node)

    leading.advance_high_watermark = advance


def truncate_followers_to_high_watermark() -> None:
    """As Kafka before KIP-101: truncate committed records that the follower does not know to be committed."""
    follow = ReplicaFetcher.follow

    def truncate_and_follow(self: ReplicaFetcher, partition: Partition) -> None:
        if partition.log.high_watermark < partition.log.end_offset:
            partition.log.truncate_to(partition.log.high_watermark)
        follow(self, partition)

    ReplicaFetcher.follow = truncate_and_follow  # type: ignore[method-assign]


def do_not_sync_votes() -> None:
    def store(disk: Disk, directory: str, state: QuorumState, kraft_version: int, voters: VoterSet) -> None:
        real = disk.replace_file
        disk.replace_file = disk.write_file  # type: ignore[method-assign]
        try:
            synced(disk, directory, state, kraft_version, voters)
        finally:
            disk.replace_file = real  # type: ignore[method-assign]

    synced = quorum_state_file.store
    quorum_state_file.store = store


def expand_isr_without_broker_epoch() -> None:
    """Ignore KIP-903: a replica that was caught up before it crashed joins the ISR after it has."""
    check = controller_partitions._proposal_error

    def proposal_error(
        state: ControllerState, broker_id: int, partition: PartitionImage, proposed: ProposedPartition
    ) -> ErrorCode:
        for member in proposed.new_isr_with_epochs:
            member.broker_epoch = -1
        return check(state, broker_id, partition, proposed)

    def is_eligible(self: LeaderReplica, follower: Follower) -> bool:
        return self._brokers.eligible_epoch(follower.broker_id) is not None

    controller_partitions._proposal_error = proposal_error
    LeaderReplica._is_eligible = is_eligible  # type: ignore[method-assign]


def acknowledge_before_isr() -> None:
    def high_watermark(self: LeaderReplica, leader_end: int, min_insync_replicas: int, now_ms: int) -> int:
        return leader_end

    LeaderReplica.high_watermark = high_watermark  # type: ignore[method-assign]


def wait_without_checking_high_watermark() -> None:
    """A transactional batch may be committed while another batch of the request is still verified."""
    register = Partition.register_ack

    def register_ack(self: Partition, append: Appended, acks_all: bool, wait: AckWait) -> bool:
        if self.topic in INTERNAL_TOPICS or self.leader is None:
            return register(self, append, acks_all, wait)
        self.leader.commit_queue.add(append.end_offset, wait)
        return True

    Partition.register_ack = register_ack  # type: ignore[method-assign]


def complete_reassignment_early() -> None:
    def complete(self: PartitionChangeBuilder) -> None:
        isr = tuple(each for each in self.target_isr if each not in self.target_removing)
        if isr:
            self.target_isr = isr
            self.target_replicas = tuple(
                each for each in self.target_replicas if each not in self.target_removing
            )
            self.target_adding = self.target_removing = ()

    PartitionChangeBuilder._complete_reassignment = complete  # type: ignore[method-assign]


def delete_replicas_early() -> None:
    """Delete a removed replica when its reassignment begins, although other replicas may need it."""
    apply = PartitionManager._apply_partition

    def apply_or_remove(
        self: PartitionManager, metadata: MetadataImage, topic: TopicImage, index: int
    ) -> None:
        if self._node_id in topic.partitions[index].removing:
            self._remove_replica(topic, index)
        else:
            apply(self, metadata, topic, index)

    PartitionManager._apply_partition = apply_or_remove  # type: ignore[method-assign]


def omit_producer_ids_from_snapshots() -> None:
    """The log before the snapshot is deleted, so the allocated ids are lost."""
    to_records = MetadataImage.to_records

    def without_producer_ids(
        self: MetadataImage, metadata_version: int | None = None
    ) -> Iterator[VersionedRecord]:
        for record, version in to_records(self, metadata_version):
            if not isinstance(record, ProducerIdsRecord):
                yield record, version

    MetadataImage.to_records = without_producer_ids  # type: ignore[method-assign]


def recover_past_gaps() -> None:
    """Keep the segments after the lost end of a segment, so records are missing in the middle of the log."""

    def find_no_break(self: segment_recovery.SegmentRecovery, at: int, end_offset: int) -> str | None:
        return None

    segment_recovery.SegmentRecovery._find_break = find_no_break  # type: ignore[method-assign]


def compact_without_recovery_point() -> None:
    """Recovery may then take compacted offsets for lost records and truncate the log there."""

    async def write_recovery_point(self: Compaction, chosen: Cleanable) -> None:
        return

    Compaction.write_recovery_point = write_recovery_point  # type: ignore[method-assign]


def compact_open_transactions() -> None:
    """Remove a record for a later one of its key, whose transaction is aborted in the end."""

    def find_cleanable_to_high_watermark(log: Log, checkpoint: int | None, now_ms: int) -> Cleanable | None:
        stable = log.last_stable_offset
        log.last_stable_offset = log.high_watermark
        try:
            return find_cleanable(log, checkpoint, now_ms)
        finally:
            log.last_stable_offset = stable

    compaction.find_cleanable = find_cleanable_to_high_watermark  # type: ignore[attr-defined]


def delete_uncommitted_segments() -> None:
    """Delete segments whose records are not committed yet."""
    delete = retention._delete_while

    def delete_uncommitted(
        log: Log, now_ms: int, should_delete: Callable[[Segment, int | None], bool], max_segments: int
    ) -> int:
        committed = log.high_watermark
        log.high_watermark = log.end_offset
        try:
            return delete(log, now_ms, should_delete, max_segments)
        finally:
            log.high_watermark = max(committed, log.start_offset)

    retention._delete_while = delete_uncommitted


def reorder_requests() -> None:
    """Execute a request when it arrives, before earlier requests of the connection have completed."""

    def admit(self: Connection, pipeline: str) -> bool:
        return True

    Connection.admit = admit  # type: ignore[method-assign]


def do_not_respond_to_leave() -> None:
    """A member of the new protocol gets no response when it leaves, unless its group is deleted already."""
    leave = group_heartbeat._leave

    def leave_without_response(
        shard: ShardState, request: ConsumerGroupHeartbeatRequest, token: Hashable, now_ms: int
    ) -> GroupOutcome:
        decision = leave(shard, request, token, now_ms)
        decision.replies.clear()
        return decision

    group_heartbeat._leave = leave_without_response


def elect_replicas_without_data() -> None:
    """Trust a missing or truncated log as if it had never contained more."""

    def hold_back(self: LostReplicas, topic: TopicImage, index: int, *, starting: bool) -> bool:
        return False

    LostReplicas.hold_back = hold_back  # type: ignore[method-assign]


def do_not_register_again() -> None:
    """An unregistered broker stays out until it is restarted, as in Apache Kafka."""

    async def register_again(self: BrokerLifecycle) -> bool:
        return False

    BrokerLifecycle._register_again = register_again  # type: ignore[method-assign]


class Mutant(NamedTuple):
    inject: Callable[[], None]
    actions: Mapping[str, int] | None
    """The faults that reveal it; None: those of every run."""
    broken: Set[str]
    """The invariants that may break first."""
    first_seed: int = 0
    """Where the search begins: a seed that found the mutant."""


MUTANTS: Mapping[str, Mutant] = {
    "commit-of-old-epochs": Mutant(
        commit_records_of_old_epochs, None, {OWN_EPOCH, COMMITTED_KEPT, LOGS_AGREE}
    ),
    "truncation-to-high-watermark": Mutant(
        truncate_followers_to_high_watermark,
        None,
        {NEVER_TRUNCATED, ACKED_KEPT, ISR_HAS_COMMITTED},
    ),
    "unsynced-votes": Mutant(
        do_not_sync_votes, {"lose_voter_power": 2, "heal": 1, "restart": 1}, {VOTE_ONCE, ONE_LEADER}
    ),
    "isr-without-broker-epoch": Mutant(
        expand_isr_without_broker_epoch,
        {"lose_power_before_isr_expansion": 3, "heal": 1, "restart": 1},
        {ISR_HAS_COMMITTED, ACKED_KEPT},
    ),
    "ack-before-isr": Mutant(acknowledge_before_isr, None, {MIN_ISR_COPIES, ISR_HAS_COMMITTED}),
    "unchecked-wait-for-ack": Mutant(wait_without_checking_high_watermark, None, {NO_LOST_WAKE_UP}),
    "early-end-of-reassignment": Mutant(complete_reassignment_early, None, {REASSIGNMENT_COMPLETES}, 22),
    "early-replica-deletion": Mutant(delete_replicas_early, None, {REPLICA_KEPT}, 54),
    "snapshot-without-producer-ids": Mutant(
        omit_producer_ids_from_snapshots, None, {SNAPSHOT_EQUALS_LOG, SEQUENCES}
    ),
    "recovery-past-gaps": Mutant(
        recover_past_gaps,
        {"power_failure": 2, "lose_power": 2, "restart": 1},
        {NO_GAPS},
    ),
    "compaction-without-recovery-point": Mutant(
        compact_without_recovery_point,
        {"kill_during_compaction": 3, "restart": 1},
        {PAGE_CACHE_KEPT},
        21,
    ),
    "compaction-of-open-transactions": Mutant(compact_open_transactions, None, {LAST_OF_KEY_KEPT}, 10),
    "reordered-requests": Mutant(reorder_requests, None, {ENDS_INCREASE}),
    "leave-without-response": Mutant(do_not_respond_to_leave, None, {ALL_RESPONDED}),
    "leader-without-data": Mutant(
        elect_replicas_without_data,
        {"damage": 3, "restart": 1},
        {ACKED_KEPT, ISR_HAS_COMMITTED},
        11,
    ),
    "deletion-of-uncommitted-segments": Mutant(
        delete_uncommitted_segments,
        {"isolate": 3, "heal": 2, "shorten_retention": 1},
        {ONLY_EXPIRED_DELETED, ENDS_INCREASE},
        23,
    ),
    "no-re-registration": Mutant(do_not_register_again, {"unregister": 1}, {PROGRESS}),
}


def main() -> None:
    name, seeds = sys.argv[1:]
    first, _, last = seeds.rpartition("-")
    mutant = MUTANTS[name]
    for outcome in run_seeds(range(int(first), int(last) + 1), actions=mutant.actions, prepare=mutant.inject):
        if outcome.broken in mutant.broken:
            print(f"found by seed {outcome.seed}: {outcome.broken}", flush=True)
            exit_immediately(0)
        if outcome.broken is not None:
            print(f"seed {outcome.seed} broke another invariant: {outcome.broken}", flush=True)
    exit_immediately(1)


if __name__ == "__main__":
    main()
