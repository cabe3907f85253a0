"""The invariants of a cluster, checked after every step of every node."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from ruslo.broker.node.node import Node
from ruslo.broker.partitions.partition import Partition
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.states import State
from ruslo.model.topics import INTERNAL_TOPICS, METADATA_TOPIC, TopicPartition
from ruslo.records.batch import BatchHeader
from ruslo.records.reader import read_records
from ruslo.storage.log import Log
from ruslo.testing.simulation.nodes.cluster import partition_in, replica_of
from ruslo.testing.simulation.nodes.committed_log import NO_GAPS, Batch, CommittedLog, batches_of
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.nodes.metadata_invariants import MetadataInvariants
from ruslo.testing.simulation.raft.invariants import (
    COMMITTED_KEPT,
    HIGH_WATERMARK_INCREASES,
    LOGS_AGREE,
    ONE_LEADER,
    VOTE_ONCE,
    InvariantBrokenError,
)

ONE_PARTITION_LEADER = "one leader per epoch of a partition"
ACKED_KEPT = "acknowledged records are in the log of every later leader"
MIN_ISR_COPIES = "every committed record has at least min.insync.replicas copies"
NEVER_TRUNCATED = "no replica truncates committed records"
ISR_HAS_COMMITTED = "in-sync replicas have all committed records"
OWN_EPOCH = "a leader commits older records only with one of its own epoch"
SEQUENCES = "a producer's sequences are consecutive"
NO_UNHANDLED_ERRORS = "there are no unhandled errors"
REPLICA_KEPT = "a replica is deleted only when the metadata has removed it"
LOG_START_INCREASES = "the log start offset never decreases"
PAGE_CACHE_KEPT = "a killed process finds everything that it has written"
NO_LOST_WAKE_UP = "no ack waits for a watermark that was reached"
ONLY_EXPIRED_DELETED = "only expired, excess or explicitly deleted records are deleted"

METADATA = TopicPartition(METADATA_TOPIC, 0)
MIN_ISR = 2


class _Seen(NamedTuple):
    """The last checked state of a node's log."""

    log: Log
    high_watermark: int
    led_epoch: int


class NodeInvariants:
    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedLog] = {}
        self._seen: dict[tuple[int, TopicPartition], _Seen] = {}
        self._states: dict[Partition, tuple[int, int, int, int]] = {}
        """End, high watermark, led epoch and start offset at the last check."""
        self._ends: dict[TopicPartition, dict[int, int]] = {}
        """The largest end offset of each node's replica, over all its incarnations."""
        self._replicas: dict[int, tuple[Node, dict[TopicPartition, Partition]]] = {}
        """The replicas of a node at the last check."""
        self.metadata = MetadataInvariants()
        self._tails: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = {}
        """The history of each replica: end offsets and the epoch of the last batch."""
        self.hosts: Mapping[int, SimHost] = {}
        self.offsets: dict[TopicPartition, dict[str, int]] = {}
        """The offset of each value, for partitions whose records may be deleted."""
        self._rounds: dict[int, tuple[Node, int]] = {}
        """The number of compactions of each node in this incarnation."""
        self._newest = -1
        self._in_sync: dict[TopicPartition, tuple[int, ...]] = {}
        """The ISR in the newest metadata of any node."""
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._votes: dict[tuple[int, int], int] = {}

    def committed_log(self, tp: TopicPartition) -> CommittedLog:
        return self.committed.setdefault(tp, CommittedLog())

    def known(self, tp: TopicPartition) -> PartitionImage | None:
        """The partition in the committed metadata."""
        return partition_in(self.metadata.image, tp)

    def void_guarantees(self) -> None:
        """More is lost than the guarantees cover: they no longer hold for the partitions."""
        for tp, log in self.committed.items():
            log.is_void = tp != METADATA

    def check(self, host: SimHost) -> None:
        """Called after every step of the node."""
        assert host.process is not None
        if host.process.failures:
            error = host.process.failures[0]
            raise InvariantBrokenError(NO_UNHANDLED_ERRORS, f"node {host.id}: {error!r}") from error
        node = host.node
        if node is None:
            return
        raft = getattr(node, "raft", None)
        if raft is not None and raft._machine is not None:
            self._check_quorum(host.id, node)
        if not node.has_loaded:
            return
        if node.raft.applied.offset > self._newest:
            self._newest = node.raft.applied.offset
            self._check_isr(node)
        self.metadata.check(host.id, node)
        self._check_replicas_kept(host.id, node)
        for partition in node.broker.partitions:
            log = partition.log
            self._check_acks(host.id, partition)
            led_epoch = partition.leader_epoch if partition.leader_id == host.id else -1
            # Compared by identity: a restarted node has new objects.
            state = (log.end_offset, log.high_watermark, led_epoch, log.start_offset)
            before = self._states.get(partition)
            if before == state:
                continue
            self._states[partition] = state
            tp = TopicPartition(partition.topic, partition.index)
            if before is None or before[0] != log.end_offset:
                self._check_end(host, tp, log, is_new=before is None)
            if before is None or before[3] != log.start_offset:
                self._check_start(host, tp, log, None if before is None else before[3])
            ends = self._ends.setdefault(tp, {})
            ends[host.id] = max(log.end_offset, ends.get(host.id, 0))
            seen = self._seen.get((host.id, tp))
            self._check_log(host.id, tp, log, log.high_watermark, led_epoch, partition.leader_epoch, seen)
        self._check_compaction(host.id, node)

    def _check_acks(self, node_id: int, partition: Partition) -> None:
        """No ack waits for a watermark that was reached."""
        leader = partition.leader
        if leader is not None and (
            leader.commit_queue.first <= partition.log.high_watermark
            or leader.durable_queue.first <= leader.durable_offset
        ):
            raise InvariantBrokenError(
                NO_LOST_WAKE_UP, f"node {node_id}: {partition} has an ack that waits although it is decided"
            )

    # -- replicas --------------------------------------------------------------------------------------------

    def _check_replicas_kept(self, node_id: int, node: Node) -> None:
        """A node may drop only partitions of which it is no longer a replica."""
        held = {TopicPartition(each.topic, each.index): each for each in node.broker.partitions}
        previous_node, before = self._replicas.get(node_id, (None, {}))
        self._replicas[node_id] = (node, held)
        if previous_node is not node:
            for tp in before.keys() - held.keys():
                self._tails.pop((node_id, tp), None)
            return
        for tp, partition in before.items():
            if held.get(tp) is partition:
                continue
            known = partition_in(node.metadata.image, tp)
            if known is not None and node_id in known.replicas and tp not in held:
                raise InvariantBrokenError(
                    REPLICA_KEPT, f"node {node_id} dropped its log of {tp}, but is a replica: {known}"
                )
            # A later log of the same partition is another replica.
            self._ends[tp].pop(node_id, None)
            self._tails.pop((node_id, tp), None)

    def _check_end(self, host: SimHost, tp: TopicPartition, log: Log, *, is_new: bool) -> None:
        """A replica was extended or truncated."""
        node_id = host.id
        tail = self._tails.setdefault((node_id, tp), [])
        end_offset = log.end_offset
        committed = self.committed_log(tp)
        if is_new:
            if tail and end_offset < tail[-1][0] and not host.page_cache_lost:
                raise InvariantBrokenError(
                    PAGE_CACHE_KEPT, f"node {node_id} had {tp} up to {tail[-1][0]}, now up to {end_offset}"
                )
            # What a power failure did to a log is judged by the ISR and by the next leader.
            tail.clear()
            self._check_gaps(node_id, tp, log)
        while tail and tail[-1][0] > end_offset:
            end, epoch = tail.pop()
            start = max(tail[-1][0] if tail else 0, end_offset)
            if committed.is_void:
                continue
            for offset in range(start, min(end, committed.end)):
                batch = committed.at.get(offset)
                if batch is not None and batch.epoch == epoch:
                    raise InvariantBrokenError(
                        NEVER_TRUNCATED,
                        f"node {node_id} truncated {tp} to {end_offset}, but {batch} is committed",
                    )
        tail.append((end_offset, log.epochs.latest))

    def _check_gaps(self, node_id: int, tp: TopicPartition, log: Log, start: int = 0) -> None:
        """An opened log has everything up to its end, whatever happened to it."""
        committed = self.committed_log(tp)
        gap = committed.first_gap(log, start) if not (committed.is_void and committed.keyed) else None
        if gap is not None:
            raise InvariantBrokenError(
                NO_GAPS, f"node {node_id} has {tp} up to {log.end_offset}, but not {gap}"
            )

    def _check_start(self, host: SimHost, tp: TopicPartition, log: Log, before: int | None) -> None:
        """A replica was opened, or its log start has moved."""
        committed, start = self.committed_log(tp), log.start_offset
        if not committed.is_void:
            if before is not None and start < before:
                raise InvariantBrokenError(LOG_START_INCREASES, f"node {host.id}, {tp}: {before} → {start}")
            if not committed.may_start_at(start, log, host.local_clock.now_ms()):
                raise InvariantBrokenError(
                    ONLY_EXPIRED_DELETED,
                    f"node {host.id} deleted {tp} up to {start} and has {log.size_bytes} bytes left; "
                    f"allowed is {committed.retention}",
                )
        committed.deleted_below = max(committed.deleted_below, start)

    def _check_compaction(self, node_id: int, node: Node) -> None:
        """After a compaction, because nothing else checks old records again."""
        compaction = getattr(node.broker, "compaction", None)
        rounds = (node, compaction.rounds if compaction is not None else 0)
        if self._rounds.get(node_id) == rounds:
            return
        self._rounds[node_id] = rounds
        for tp, committed in self.committed.items():
            replica = replica_of(node, tp) if committed.keyed is not None and not committed.is_void else None
            if replica is not None:
                end = min(replica.log.high_watermark, committed.end)
                self._compare(node_id, tp, replica.log, 0, end, LOGS_AGREE)

    def _check_isr(self, node: Node) -> None:
        """Called with newer metadata than any node had before."""
        image = node.metadata.image
        for topic in image.topics.by_name.values():
            for index, partition in enumerate(topic.partitions):
                tp = TopicPartition(topic.name, index)
                # An old registration says nothing about the current process.
                members = tuple(
                    member
                    for member in partition.isr
                    if (broker := image.cluster.brokers.get(member)) is not None
                    and self._epoch_of(member) == broker.epoch
                )
                self._in_sync[tp] = members
                self._require_all(tp, self.committed_log(tp))

    def _epoch_of(self, node_id: int) -> int | None:
        """The broker epoch of the running process."""
        host = self.hosts.get(node_id)
        node = host.node if host is not None else None
        return node.broker.lifecycle.epoch if node is not None and node.has_loaded else None

    def _require_all(self, tp: TopicPartition, committed: CommittedLog) -> None:
        if committed.is_void:
            return
        for member in self._in_sync.get(tp, ()):
            if self._epoch_of(member) is None:
                continue
            node = self.hosts[member].node
            assert node is not None
            replica = replica_of(node, tp)
            if replica is not None and replica.log.end_offset < committed.end:
                raise InvariantBrokenError(
                    ISR_HAS_COMMITTED,
                    f"node {member} is in sync, but its log of {tp} ends at {replica.log.end_offset}; "
                    f"{committed.end} is committed",
                )

    # -- the quorum ------------------------------------------------------------------------------------------

    def _check_quorum(self, node_id: int, node: Node) -> None:
        machine = node.raft._machine
        assert machine is not None
        quorum = machine.quorum
        if quorum.voted_id != NO_NODE:
            first = self._votes.setdefault((node_id, quorum.epoch), quorum.voted_id)
            if first != quorum.voted_id:
                raise InvariantBrokenError(
                    VOTE_ONCE,
                    f"{node_id} voted in epoch {quorum.epoch} for {first}, then for {quorum.voted_id}",
                )
        log = node.raft._open_replica.store.log
        led_epoch = machine.epoch if machine.state is State.LEADER else -1
        seen = self._seen.get((node_id, METADATA))
        high_watermark = max(machine.high_watermark, 0)
        if seen is None or seen.log is not log:
            self._check_gaps(node_id, METADATA, log, self._snapshot_offset(node_id))
        if (
            seen is None
            or seen.log is not log
            or seen.high_watermark != high_watermark
            or seen.led_epoch != led_epoch
        ):
            self._check_log(node_id, METADATA, log, high_watermark, led_epoch, machine.epoch, seen)

    def _snapshot_offset(self, node_id: int) -> int:
        """The log before it is not needed."""
        node = self.hosts[node_id].node
        assert node is not None, "the node has just made a step"
        return node.raft._open_replica.store.snapshot_id.offset

    # -- any log ---------------------------------------------------------------------------------------------

    def _check_log(
        self,
        node_id: int,
        tp: TopicPartition,
        log: Log,
        high_watermark: int,
        led_epoch: int,
        epoch: int,
        seen: _Seen | None,
    ) -> None:
        committed = self.committed_log(tp)
        known = seen is not None and seen.log is log
        before = seen.high_watermark if seen is not None and known else 0
        self._seen[node_id, tp] = _Seen(log, high_watermark, led_epoch)
        if led_epoch >= 0 and not (seen is not None and known and seen.led_epoch == led_epoch):
            self._check_leader(node_id, tp, log, led_epoch, committed)
        if committed.is_void:
            return
        if high_watermark < before:
            raise InvariantBrokenError(
                HIGH_WATERMARK_INCREASES, f"node {node_id}, {tp}: {before} → {high_watermark}"
            )
        self._compare(node_id, tp, log, before, min(high_watermark, committed.end), LOGS_AGREE)
        if high_watermark > committed.end:
            self._extend(node_id, tp, log, high_watermark, epoch, led_epoch, committed)

    def _check_leader(
        self, node_id: int, tp: TopicPartition, log: Log, epoch: int, committed: CommittedLog
    ) -> None:
        first = self._leaders.setdefault((tp, epoch), node_id)
        if first != node_id:
            raise InvariantBrokenError(
                ONE_LEADER if tp == METADATA else ONE_PARTITION_LEADER,
                f"nodes {first} and {node_id} lead epoch {epoch} of {tp}",
            )
        if committed.is_void:
            return
        # Later leaders must have everything; a late winner of a past epoch is harmless.
        needed = committed.end_before(epoch)
        name = COMMITTED_KEPT if tp == METADATA else ACKED_KEPT
        if log.end_offset < needed:
            raise InvariantBrokenError(
                name,
                f"node {node_id} leads epoch {epoch} of {tp} with a log up to {log.end_offset}, but "
                f"{needed} is committed",
            )
        self._compare(node_id, tp, log, 0, needed, name)

    def _compare(self, node_id: int, tp: TopicPartition, log: Log, start: int, end: int, name: str) -> None:
        if tp == METADATA:
            start = max(start, self._snapshot_offset(node_id))
        difference = self.committed_log(tp).difference(log, start, end)
        if difference is not None:
            raise InvariantBrokenError(
                difference.broken or name, f"node {node_id} has in {tp} {difference.what}"
            )

    def _extend(
        self,
        node_id: int,
        tp: TopicPartition,
        log: Log,
        high_watermark: int,
        epoch: int,
        led_epoch: int,
        committed: CommittedLog,
    ) -> None:
        for batch, header, content in batches_of(log, committed.end, high_watermark):
            if committed.end != batch.base_offset:
                raise InvariantBrokenError(
                    LOGS_AGREE if committed.end > batch.base_offset else NO_GAPS,
                    f"node {node_id} has {batch} in {tp}, {committed.end} was committed",
                )
            if tp == METADATA:
                self.metadata.committed(header, content)
            else:
                self._check_min_isr(tp, batch)
                self._check_sequence(tp, header, committed)
                if tp in self.offsets:
                    values = ((record.value or b"").decode() for record in read_records(content))
                    self.offsets[tp].update(zip(values, count(batch.base_offset)))
            committed.extend(batch, header, content, epoch)
        if tp != METADATA:
            self._require_all(tp, committed)
        elif led_epoch >= 0 and committed.batches[-1].epoch != led_epoch:
            raise InvariantBrokenError(
                OWN_EPOCH, f"node {node_id} leads epoch {led_epoch} and commits {committed.batches[-1]}"
            )

    def _check_min_isr(self, tp: TopicPartition, batch: Batch) -> None:
        ends = self._ends[tp]
        copies = sum(1 for end in ends.values() if end > batch.last_offset)
        if copies < MIN_ISR:
            raise InvariantBrokenError(
                MIN_ISR_COPIES, f"{batch} of {tp} is committed, but its replicas end at {ends}"
            )

    def _check_sequence(self, tp: TopicPartition, header: BatchHeader, committed: CommittedLog) -> None:
        if tp.topic in INTERNAL_TOPICS or header.producer_id < 0 or header.is_control:
            return
        epoch, expected = committed.sequences.get(header.producer_id, (-1, 0))
        if header.producer_epoch > epoch:
            expected = 0
        if header.producer_epoch < epoch or header.base_sequence != expected:
            raise InvariantBrokenError(
                SEQUENCES,
                f"producer {header.producer_id}/{header.producer_epoch} at {header.base_offset} of {tp}: "
                f"sequence {header.base_sequence}, {expected} of epoch {epoch} was next",
            )
        following = expected + header.last_offset - header.base_offset + 1
        committed.sequences[header.producer_id] = (header.producer_epoch, following)
