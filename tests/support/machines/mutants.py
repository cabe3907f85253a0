"""Classic bugs put into the product: ``-m tests.support.machines.mutants NAME FIRST-LAST``.

The simulation runs these seeds until an invariant breaks, and says which; the exit code is 1 if none does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
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
from ruslo.testing.simulation.nodes.clients.pipeliner import ENDS_RISE
from ruslo.testing.simulation.nodes.committed_log import LAST_OF_KEY_KEPT, NOTHING_MISSING
from ruslo.testing.simulation.nodes.invariants import (
    ACKED_KEPT,
    DELETED_LATE,
    ENOUGH_COPIES,
    IN_SYNC_HAVE_ALL,
    NEVER_TRUNCATED,
    NO_LOST_WAKE_UP,
    ONLY_THE_OLD,
    OWN_EPOCH,
    PAGE_CACHE_KEPT,
    SEQUENCES,
)
from ruslo.testing.simulation.nodes.metadata_invariants import MOVE_ENDS_WELL, SAME_STATE
from ruslo.testing.simulation.nodes.runs import exit_immediately, run_seeds
from ruslo.testing.simulation.raft.invariants import (
    COMMITTED_KEPT,
    LOGS_AGREE,
    ONE_LEADER,
    PROGRESS,
    VOTE_ONCE,
)


def old_epochs_are_committed_by_counting() -> None:
    """Without Raft §5.4.2: a majority is enough, whatever the epoch of the record."""

    def advance(node: QuorumNode) -> None:
        if isinstance(node.role, Leader):
            node.high_watermark = max(
                node.high_watermark,
                node.role.majority_offset(node.voters, node.key, node.log.flushed_offset),
            )
            leading.complete_waiting_fetches(node)

    leading.advance_high_watermark = advance


def followers_cut_back_to_their_high_watermark() -> None:
    """As Kafka did before KIP-101: committed records are truncated where the commit is not known yet."""
    follow = ReplicaFetcher.follow

    def cut_and_follow(self: ReplicaFetcher, partition: Partition) -> None:
        if partition.log.high_watermark < partition.log.end_offset:
            partition.log.truncate_to(partition.log.high_watermark)
        follow(self, partition)

    ReplicaFetcher.follow = cut_and_follow  # type: ignore[method-assign]


def votes_are_not_synced() -> None:
    def store(disk: Disk, directory: str, state: QuorumState, kraft_version: int, voters: VoterSet) -> None:
        real = disk.replace_file
        disk.replace_file = disk.write_file  # type: ignore[method-assign]
        try:
            synced(disk, directory, state, kraft_version, voters)
        finally:
            disk.replace_file = real  # type: ignore[method-assign]

    synced = quorum_state_file.store
    quorum_state_file.store = store


def replicas_join_whatever_their_broker_epoch() -> None:
    """Without KIP-903: who was caught up before it crashed is taken in after it has."""
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


def acks_do_not_wait_for_all_in_sync_replicas() -> None:
    def high_watermark(self: LeaderReplica, leader_end: int, min_insync_replicas: int, now_ms: int) -> int:
        return leader_end

    LeaderReplica.high_watermark = high_watermark  # type: ignore[method-assign]


def produce_waits_without_a_check_of_the_watermark() -> None:
    """A transactional batch may be committed while another one of its request is still verified."""
    register = Partition.register_ack

    def register_ack(self: Partition, append: Appended, acks_all: bool, wait: AckWait) -> bool:
        if self.topic in INTERNAL_TOPICS or self.leader is None:
            return register(self, append, acks_all, wait)
        self.leader.commit_queue.add(append.end_offset, wait)
        return True

    Partition.register_ack = register_ack  # type: ignore[method-assign]


def moves_end_before_the_new_replicas_are_in_sync() -> None:
    def complete(self: PartitionChangeBuilder) -> None:
        isr = tuple(each for each in self.target_isr if each not in self.target_removing)
        if isr:
            self.target_isr = isr
            self.target_replicas = tuple(
                each for each in self.target_replicas if each not in self.target_removing
            )
            self.target_adding = self.target_removing = ()

    PartitionChangeBuilder._complete_reassignment = complete  # type: ignore[method-assign]


def copies_go_when_their_move_begins() -> None:
    """Who is to be a replica no more deletes its copy, though others may need it still."""
    place = PartitionManager._apply_partition

    def place_or_remove(
        self: PartitionManager, metadata: MetadataImage, topic: TopicImage, index: int
    ) -> None:
        if self._node_id in topic.partitions[index].removing:
            self._remove_replica(topic, index)
        else:
            place(self, metadata, topic, index)

    PartitionManager._apply_partition = place_or_remove  # type: ignore[method-assign]


def snapshots_forget_producer_ids() -> None:
    """The log is cut, and with it goes who has been given which ids."""
    to_records = MetadataImage.to_records

    def without_producer_ids(
        self: MetadataImage, metadata_version: int | None = None
    ) -> Iterator[VersionedRecord]:
        for record, version in to_records(self, metadata_version):
            if not isinstance(record, ProducerIdsRecord):
                yield record, version

    MetadataImage.to_records = without_producer_ids  # type: ignore[method-assign]


def recovery_goes_on_behind_a_gap() -> None:
    """What lies behind the lost end of a segment is kept: the log's end claims what is gone."""

    def find_no_break(self: segment_recovery.SegmentRecovery, at: int, end_offset: int) -> str | None:
        return None

    segment_recovery.SegmentRecovery._find_break = find_no_break  # type: ignore[method-assign]


def compaction_does_not_secure_the_recovery_point() -> None:
    """What it leaves out may then be taken for a loss, and what follows be given up."""

    async def write_recovery_point(self: Compaction, chosen: Cleanable) -> None:
        return

    Compaction.write_recovery_point = write_recovery_point  # type: ignore[method-assign]


def compaction_takes_open_transactions_for_committed() -> None:
    """A record goes because of a later one of its key, which is aborted in the end."""

    def look_beyond(log: Log, checkpoint: int | None, now_ms: int) -> Cleanable | None:
        stable = log.last_stable_offset
        log.last_stable_offset = log.high_watermark
        try:
            return find_cleanable(log, checkpoint, now_ms)
        finally:
            log.last_stable_offset = stable

    compaction.find_cleanable = look_beyond  # type: ignore[attr-defined]


def retention_does_not_wait_for_the_high_watermark() -> None:
    """Segments go whose records are not committed yet."""
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


def requests_overtake_those_that_wait() -> None:
    """A request is carried out when it comes, and only its response waits for those before it."""

    def admit(self: Connection, pipeline: str) -> bool:
        return True

    Connection.admit = admit  # type: ignore[method-assign]


def leaves_are_not_answered() -> None:
    """A member of the new protocol that leaves waits for ever, unless its group is gone already."""
    leave = group_heartbeat._leave

    def leave_silently(
        shard: ShardState, request: ConsumerGroupHeartbeatRequest, token: Hashable, now_ms: int
    ) -> GroupOutcome:
        decision = leave(shard, request, token, now_ms)
        decision.replies.clear()
        return decision

    group_heartbeat._leave = leave_silently


def replicas_that_lost_their_data_lead() -> None:
    """A log that is not there, or short, is taken for one that never had more."""

    def hold_back(self: LostReplicas, topic: TopicImage, index: int, *, starting: bool) -> bool:
        return False

    LostReplicas.hold_back = hold_back  # type: ignore[method-assign]


class ClassicBug(NamedTuple):
    put_in: Callable[[], None]
    actions: Mapping[str, int] | None
    """The faults that bring it out; None: those of every run."""
    broken: frozenset[str]
    """What may be said of it."""


def unregistered_brokers_stay_out() -> None:
    """Until they are started again, as Apache Kafka's do."""

    async def stay_out(self: BrokerLifecycle) -> bool:
        return False

    BrokerLifecycle._register_again = stay_out  # type: ignore[method-assign]


BUGS: Mapping[str, ClassicBug] = {
    "no-own-epoch-rule": ClassicBug(
        old_epochs_are_committed_by_counting, None, frozenset({OWN_EPOCH, COMMITTED_KEPT, LOGS_AGREE})
    ),
    "cut-to-high-watermark": ClassicBug(
        followers_cut_back_to_their_high_watermark,
        None,
        frozenset({NEVER_TRUNCATED, ACKED_KEPT, IN_SYNC_HAVE_ALL}),
    ),
    "votes-not-synced": ClassicBug(
        votes_are_not_synced, {"lose_votes": 2, "heal": 1, "restart": 1}, frozenset({VOTE_ONCE, ONE_LEADER})
    ),
    "no-broker-epoch": ClassicBug(
        replicas_join_whatever_their_broker_epoch,
        {"expand_isr_late": 3, "heal": 1, "restart": 1},
        frozenset({IN_SYNC_HAVE_ALL, ACKED_KEPT}),
    ),
    "early-ack": ClassicBug(
        acks_do_not_wait_for_all_in_sync_replicas, None, frozenset({ENOUGH_COPIES, IN_SYNC_HAVE_ALL})
    ),
    "late-wait-for-ack": ClassicBug(
        produce_waits_without_a_check_of_the_watermark, None, frozenset({NO_LOST_WAKE_UP})
    ),
    "early-end-of-move": ClassicBug(
        moves_end_before_the_new_replicas_are_in_sync, None, frozenset({MOVE_ENDS_WELL})
    ),
    "early-deletion-of-copy": ClassicBug(copies_go_when_their_move_begins, None, frozenset({DELETED_LATE})),
    "snapshot-without-producer-ids": ClassicBug(
        snapshots_forget_producer_ids, None, frozenset({SAME_STATE, SEQUENCES})
    ),
    "recovery-behind-a-gap": ClassicBug(
        recovery_goes_on_behind_a_gap,
        {"black_out": 2, "lose_power": 2, "restart": 1},
        frozenset({NOTHING_MISSING}),
    ),
    "unsecured-compaction": ClassicBug(
        compaction_does_not_secure_the_recovery_point,
        {"hunt_compaction": 3, "restart": 1},
        frozenset({PAGE_CACHE_KEPT}),
    ),
    "compaction-of-open-transactions": ClassicBug(
        compaction_takes_open_transactions_for_committed, None, frozenset({LAST_OF_KEY_KEPT})
    ),
    "overtaking-requests": ClassicBug(requests_overtake_those_that_wait, None, frozenset({ENDS_RISE})),
    "unanswered-leave": ClassicBug(leaves_are_not_answered, None, frozenset({ALL_RESPONDED})),
    "lost-data-leads": ClassicBug(
        replicas_that_lost_their_data_lead,
        {"damage": 3, "restart": 1},
        frozenset({ACKED_KEPT, IN_SYNC_HAVE_ALL}),
    ),
    "retention-of-uncommitted": ClassicBug(
        retention_does_not_wait_for_the_high_watermark,
        {"isolate": 3, "heal": 2, "shorten_retention": 1},
        frozenset({ONLY_THE_OLD, ENDS_RISE}),
    ),
    "unregistered-for-good": ClassicBug(
        unregistered_brokers_stay_out, {"unregister": 1}, frozenset({PROGRESS})
    ),
}


def main() -> None:
    name, seeds = sys.argv[1:]
    first, _, last = seeds.rpartition("-")
    bug = BUGS[name]
    for outcome in run_seeds(range(int(first), int(last) + 1), actions=bug.actions, prepare=bug.put_in):
        if outcome.broken in bug.broken:
            print(f"found by seed {outcome.seed}: {outcome.broken}", flush=True)
            exit_immediately(0)
        if outcome.broken is not None:
            print(f"seed {outcome.seed} broke something else: {outcome.broken}", flush=True)
    exit_immediately(1)


if __name__ == "__main__":
    main()
