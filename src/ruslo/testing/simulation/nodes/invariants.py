"""What must be true of a cluster after every step of every node, whatever happens to its nodes."""

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
from ruslo.testing.simulation.nodes.cluster import copy_of, partition_in
from ruslo.testing.simulation.nodes.committed_log import NOTHING_MISSING, Batch, CommittedLog, batches_of
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.nodes.metadata_invariants import MetadataInvariants
from ruslo.testing.simulation.raft.invariants import (
    COMMITTED_KEPT,
    HIGH_WATERMARK_RISES,
    LOGS_AGREE,
    ONE_LEADER,
    VOTE_ONCE,
    InvariantBrokenError,
)

ONE_PARTITION_LEADER = "one leader per epoch of a partition"
ACKED_KEPT = "what all in-sync replicas had is in the log of every later leader"
ENOUGH_COPIES = "nothing is committed with fewer copies than min.insync.replicas"
NEVER_CUT = "no replica gives up what is committed"
IN_SYNC_HAVE_ALL = "in-sync replicas have everything that is committed"
OWN_EPOCH = "a leader commits older records only together with one of its own epoch"
SEQUENCES = "a producer's sequences follow one another"
NO_SURPRISE = "nothing fails that nobody handles"
DELETED_LATE = "a copy is deleted only where the metadata say that there is no replica any more"
LOG_START_RISES = "the start of a log never goes back"
PAGE_CACHE_KEPT = "whoever dies without a power loss finds everything that it had written"
NO_LOST_WAKE_UP = "no ack waits for a watermark that has passed"
ONLY_THE_OLD = "nothing is deleted but what is too old, too much, or asked for"

METADATA = TopicPartition(METADATA_TOPIC, 0)
MIN_COPIES = 2


class _Seen(NamedTuple):
    """What was last looked at of a node's log."""

    log: Log
    high_watermark: int
    led_epoch: int


class NodeInvariants:
    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedLog] = {}
        self._seen: dict[tuple[int, TopicPartition], _Seen] = {}
        self._states: dict[Partition, tuple[int, int, int, int]] = {}
        """End, high watermark, led epoch and start when it was last looked at."""
        self._ends: dict[TopicPartition, dict[int, int]] = {}
        """How far each node's copy has ever been, in all lives of the node."""
        self._copies: dict[int, tuple[Node, dict[TopicPartition, Partition]]] = {}
        """What a node held when it was last looked at."""
        self.metadata = MetadataInvariants()
        self._tails: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = {}
        """How each copy grew: its end, and the epoch of what was last in it."""
        self.hosts: Mapping[int, SimHost] = {}
        self.offsets: dict[TopicPartition, dict[str, int]] = {}
        """Where each value stands, of partitions whose records may be deleted."""
        self._rounds: dict[int, tuple[Node, int]] = {}
        """How often each node has compacted a log in this life."""
        self._newest = -1
        self._in_sync: dict[TopicPartition, tuple[int, ...]] = {}
        """As the newest metadata that anybody has says."""
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._votes: dict[tuple[int, int], int] = {}

    def committed_log(self, place: TopicPartition) -> CommittedLog:
        return self.committed.setdefault(place, CommittedLog())

    def known(self, place: TopicPartition) -> PartitionImage | None:
        """As the committed metadata have it."""
        return partition_in(self.metadata.image, place)

    def give_up(self) -> None:
        """More is lost than any promise covers: nothing is known of the partitions any more."""
        for place, log in self.committed.items():
            log.is_void = place != METADATA

    def check(self, host: SimHost) -> None:
        """After a step of its node."""
        assert host.process is not None
        if host.process.failures:
            error = host.process.failures[0]
            raise InvariantBrokenError(NO_SURPRISE, f"node {host.id}: {error!r}") from error
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
            self._check_in_sync(node)
        self.metadata.check(host.id, node)
        self._check_copies_held(host.id, node)
        for partition in node.broker.partitions:
            log = partition.log
            self._check_acks(host.id, partition)
            led_epoch = partition.leader_epoch if partition.leader_id == host.id else -1
            # Told apart by the object itself: a node that starts again has new ones.
            state = (log.end_offset, log.high_watermark, led_epoch, log.start_offset)
            before = self._states.get(partition)
            if before == state:
                continue
            self._states[partition] = state
            place = TopicPartition(partition.topic, partition.index)
            if before is None or before[0] != log.end_offset:
                self._check_end(host, place, log, is_new=before is None)
            if before is None or before[3] != log.start_offset:
                self._check_start(host, place, log, None if before is None else before[3])
            ends = self._ends.setdefault(place, {})
            ends[host.id] = max(log.end_offset, ends.get(host.id, 0))
            seen = self._seen.get((host.id, place))
            self._check_log(host.id, place, log, log.high_watermark, led_epoch, partition.leader_epoch, seen)
        self._check_compaction(host.id, node)

    def _check_acks(self, node_id: int, partition: Partition) -> None:
        """Nothing waits for a watermark that has passed."""
        leader = partition.leader
        if leader is not None and (
            leader.commit_queue.first <= partition.log.high_watermark
            or leader.durable_queue.first <= leader.durable_offset
        ):
            raise InvariantBrokenError(
                NO_LOST_WAKE_UP, f"node {node_id}: {partition} has a decided ack that still waits"
            )

    # -- copies ----------------------------------------------------------------------------------------------

    def _check_copies_held(self, node_id: int, node: Node) -> None:
        """Which partitions a node has copies of: what it held it may let go when it is a replica no more."""
        held = {TopicPartition(each.topic, each.index): each for each in node.broker.partitions}
        lived, before = self._copies.get(node_id, (None, {}))
        self._copies[node_id] = (node, held)
        if lived is not node:
            for place in before.keys() - held.keys():
                self._tails.pop((node_id, place), None)
            return
        for place, partition in before.items():
            if held.get(place) is partition:
                continue
            known = partition_in(node.metadata.image, place)
            if known is not None and node_id in known.replicas and place not in held:
                raise InvariantBrokenError(
                    DELETED_LATE, f"node {node_id} has no copy of {place} any more, but is a replica: {known}"
                )
            # What comes instead, now or later, is another copy.
            self._ends[place].pop(node_id, None)
            self._tails.pop((node_id, place), None)

    def _check_end(self, host: SimHost, place: TopicPartition, log: Log, *, is_new: bool) -> None:
        """A copy has grown, or was cut."""
        node_id = host.id
        tail = self._tails.setdefault((node_id, place), [])
        cut = log.end_offset
        committed = self.committed_log(place)
        if is_new:
            if tail and cut < tail[-1][0] and not host.page_cache_lost:
                raise InvariantBrokenError(
                    PAGE_CACHE_KEPT, f"node {node_id} had {place} up to {tail[-1][0]}, now up to {cut}"
                )
            # What a power loss does to a log is judged by who is in sync, and by who leads.
            tail.clear()
            self._check_holes(node_id, place, log)
        while tail and tail[-1][0] > cut:
            end, epoch = tail.pop()
            start = max(tail[-1][0] if tail else 0, cut)
            if committed.is_void:
                continue
            for offset in range(start, min(end, committed.end)):
                batch = committed.at.get(offset)
                if batch is not None and batch.epoch == epoch:
                    raise InvariantBrokenError(
                        NEVER_CUT, f"node {node_id} cut its log of {place} to {cut}, {batch} is committed"
                    )
        tail.append((cut, log.epochs.latest))

    def _check_holes(self, node_id: int, place: TopicPartition, log: Log, start: int = 0) -> None:
        """Of a log that was opened, whatever has happened to it: its end says that all before it is there."""
        committed = self.committed_log(place)
        hole = committed.first_hole(log, start) if not (committed.is_void and committed.keyed) else None
        if hole is not None:
            raise InvariantBrokenError(
                NOTHING_MISSING, f"node {node_id} has {place} up to {log.end_offset}, but not {hole}"
            )

    def _check_start(self, host: SimHost, place: TopicPartition, log: Log, before: int | None) -> None:
        """Of a copy that was opened, or that begins elsewhere than before."""
        committed, start = self.committed_log(place), log.start_offset
        if not committed.is_void:
            if before is not None and start < before:
                raise InvariantBrokenError(LOG_START_RISES, f"node {host.id}, {place}: {before} → {start}")
            if not committed.may_begin_at(start, log, host.local_clock.now_ms()):
                raise InvariantBrokenError(
                    ONLY_THE_OLD,
                    f"node {host.id} has deleted {place} up to {start}, it has {log.size_bytes} bytes left; "
                    f"allowed is {committed.retention}",
                )
        committed.gone_below = max(committed.gone_below, start)

    def _check_compaction(self, node_id: int, node: Node) -> None:
        """After a round: nothing looks at old records again otherwise."""
        compaction = getattr(node.broker, "compaction", None)
        rounds = (node, compaction.rounds if compaction is not None else 0)
        if self._rounds.get(node_id) == rounds:
            return
        self._rounds[node_id] = rounds
        for place, committed in self.committed.items():
            copy = copy_of(node, place) if committed.keyed is not None and not committed.is_void else None
            if copy is not None:
                end = min(copy.log.high_watermark, committed.end)
                self._compare(node_id, place, copy.log, 0, end, LOGS_AGREE)

    def _check_in_sync(self, node: Node) -> None:
        """With newer metadata than anybody had before."""
        image = node.metadata.image
        for topic in image.topics.by_name.values():
            for index, partition in enumerate(topic.partitions):
                place = TopicPartition(topic.name, index)
                # A registration that is over says nothing of who came after it.
                members = tuple(
                    member
                    for member in partition.isr
                    if (broker := image.cluster.brokers.get(member)) is not None
                    and self._epoch_of(member) == broker.epoch
                )
                self._in_sync[place] = members
                self._require_all(place, self.committed_log(place))

    def _epoch_of(self, node_id: int) -> int | None:
        """Of its registration in this life."""
        host = self.hosts.get(node_id)
        node = host.node if host is not None else None
        return node.broker.lifecycle.epoch if node is not None and node.has_loaded else None

    def _require_all(self, place: TopicPartition, committed: CommittedLog) -> None:
        if committed.is_void:
            return
        for member in self._in_sync.get(place, ()):
            if self._epoch_of(member) is None:
                continue
            node = self.hosts[member].node
            assert node is not None
            copy = copy_of(node, place)
            if copy is not None and copy.log.end_offset < committed.end:
                raise InvariantBrokenError(
                    IN_SYNC_HAVE_ALL,
                    f"node {member} is in sync, its copy of {place} ends at {copy.log.end_offset}, but "
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
            self._check_holes(node_id, METADATA, log, self._snapshot_offset(node_id))
        if (
            seen is None
            or seen.log is not log
            or seen.high_watermark != high_watermark
            or seen.led_epoch != led_epoch
        ):
            self._check_log(node_id, METADATA, log, high_watermark, led_epoch, machine.epoch, seen)

    def _snapshot_offset(self, node_id: int) -> int:
        """What the log holds before it nobody needs."""
        node = self.hosts[node_id].node
        assert node is not None, "it has just done something"
        return node.raft._open_replica.store.snapshot_id.offset

    # -- any log ---------------------------------------------------------------------------------------------

    def _check_log(
        self,
        node_id: int,
        place: TopicPartition,
        log: Log,
        high_watermark: int,
        led_epoch: int,
        epoch: int,
        seen: _Seen | None,
    ) -> None:
        committed = self.committed_log(place)
        known = seen is not None and seen.log is log
        before = seen.high_watermark if seen is not None and known else 0
        self._seen[node_id, place] = _Seen(log, high_watermark, led_epoch)
        if led_epoch >= 0 and not (seen is not None and known and seen.led_epoch == led_epoch):
            self._check_leader(node_id, place, log, led_epoch, committed)
        if committed.is_void:
            return
        if high_watermark < before:
            raise InvariantBrokenError(
                HIGH_WATERMARK_RISES, f"node {node_id}, {place}: {before} → {high_watermark}"
            )
        self._compare(node_id, place, log, before, min(high_watermark, committed.end), LOGS_AGREE)
        if high_watermark > committed.end:
            self._extend(node_id, place, log, high_watermark, epoch, led_epoch, committed)

    def _check_leader(
        self, node_id: int, place: TopicPartition, log: Log, epoch: int, committed: CommittedLog
    ) -> None:
        first = self._leaders.setdefault((place, epoch), node_id)
        if first != node_id:
            raise InvariantBrokenError(
                ONE_LEADER if place == METADATA else ONE_PARTITION_LEADER,
                f"nodes {first} and {node_id} lead epoch {epoch} of {place}",
            )
        if committed.is_void:
            return
        # Later leaders have it all; one that hears late of an epoch of the past can do no harm.
        needed = committed.end_before(epoch)
        name = COMMITTED_KEPT if place == METADATA else ACKED_KEPT
        if log.end_offset < needed:
            raise InvariantBrokenError(
                name,
                f"node {node_id} leads epoch {epoch} of {place} with a log up to {log.end_offset}, but "
                f"{needed} is committed",
            )
        self._compare(node_id, place, log, 0, needed, name)

    def _compare(
        self, node_id: int, place: TopicPartition, log: Log, start: int, end: int, name: str
    ) -> None:
        if place == METADATA:
            start = max(start, self._snapshot_offset(node_id))
        difference = self.committed_log(place).difference(log, start, end)
        if difference is not None:
            raise InvariantBrokenError(
                difference.broken or name, f"node {node_id} has in {place} {difference.what}"
            )

    def _extend(
        self,
        node_id: int,
        place: TopicPartition,
        log: Log,
        high_watermark: int,
        epoch: int,
        led_epoch: int,
        committed: CommittedLog,
    ) -> None:
        for batch, header, content in batches_of(log, committed.end, high_watermark):
            if committed.end != batch.base_offset:
                raise InvariantBrokenError(
                    LOGS_AGREE if committed.end > batch.base_offset else NOTHING_MISSING,
                    f"node {node_id} has {batch} in {place}, {committed.end} was committed",
                )
            if place == METADATA:
                self.metadata.committed(header, content)
            else:
                self._check_copies(place, batch)
                self._check_sequence(place, header, committed)
                if place in self.offsets:
                    values = ((record.value or b"").decode() for record in read_records(content))
                    self.offsets[place].update(zip(values, count(batch.base_offset)))
            committed.extend(batch, header, content, epoch)
        if place != METADATA:
            self._require_all(place, committed)
        elif led_epoch >= 0 and committed.batches[-1].epoch != led_epoch:
            raise InvariantBrokenError(
                OWN_EPOCH, f"node {node_id} leads epoch {led_epoch} and commits {committed.batches[-1]}"
            )

    def _check_copies(self, place: TopicPartition, batch: Batch) -> None:
        ends = self._ends[place]
        copies = sum(1 for end in ends.values() if end > batch.last_offset)
        if copies < MIN_COPIES:
            raise InvariantBrokenError(
                ENOUGH_COPIES, f"{batch} of {place} is committed, but the ends of its copies are {ends}"
            )

    def _check_sequence(self, place: TopicPartition, header: BatchHeader, committed: CommittedLog) -> None:
        if place.topic in INTERNAL_TOPICS or header.producer_id < 0 or header.is_control:
            return
        epoch, expected = committed.sequences.get(header.producer_id, (-1, 0))
        if header.producer_epoch > epoch:
            expected = 0
        if header.producer_epoch < epoch or header.base_sequence != expected:
            raise InvariantBrokenError(
                SEQUENCES,
                f"producer {header.producer_id}/{header.producer_epoch} at {header.base_offset} of {place}: "
                f"sequence {header.base_sequence}, {expected} of epoch {epoch} was next",
            )
        following = expected + header.last_offset - header.base_offset + 1
        committed.sequences[header.producer_id] = (header.producer_epoch, following)
