"""The invariants of the metadata: every node is compared with a reference that has replayed the whole log.

A node's log starts at a snapshot, and a node that was away for long starts with the snapshot of another; the
reference has replayed every record since the first.
"""

from __future__ import annotations

from ruslo.broker.node.node import Node
from ruslo.broker.quorum.metadata_batches import read_data
from ruslo.broker.quorum.metadata_transactions import TransactionFilter
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import NO_LEADER, PartitionImage
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.model.buffers import ReadBuffer
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.records.batch import BatchHeader
from ruslo.testing.simulation.nodes.cluster import partition_in
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError

SNAPSHOT_EQUALS_LOG = "a snapshot and the log after it give the same state as the whole log"
SNAPSHOT_ID_EXISTS = "a snapshot id is the end offset and epoch of a committed batch"
REASSIGNMENT_COMPLETES = "a reassignment ends with all its replicas in sync, or is undone"
INACTIVE_IS_COMMITTED = "an inactive controller has only committed state"
ISR_IS_OF_REPLICAS = "leaders are in the ISR, and the ISR consists of replicas"


class MetadataInvariants:
    def __init__(self) -> None:
        self.image = MetadataImage()
        """The state of the whole log, as far as it is known to be committed."""
        self._transactions = TransactionFilter()
        self._end = 0
        self._epochs: dict[int, int] = {0: 0}
        """The epoch of the batch that ends at each offset."""
        self._original_replicas: dict[TopicPartition, frozenset[int]] = {}
        """The original replicas of partitions that are being reassigned."""
        self._compared: dict[int, MetadataImage] = {}
        self._leading: set[int] = set()
        """The controllers that were active at their last step."""
        self._snapshots: dict[int, SnapshotId] = {}

    def committed(self, header: BatchHeader, batch: ReadBuffer) -> None:
        """The next batch of the log."""
        if not header.is_control:
            records = list(read_data(batch))
            for run in self._transactions.feed(header.base_offset, header.leader_epoch, records):
                for record in run.records:
                    self._replay(record)
        self._end = header.last_offset + 1
        self._epochs[self._end] = header.leader_epoch

    def check(self, node_id: int, node: Node) -> None:
        """Called after every step of the node."""
        machine = node.raft._machine
        snapshot = machine.log.snapshot if machine is not None else None
        if snapshot is not None and snapshot != self._snapshots.get(node_id):
            self._snapshots[node_id] = snapshot
            self._check_name(node_id, snapshot)
        self._check_controller(node_id, node)
        image = node.metadata.image
        # A new image came from a snapshot or a restart; after that the log is replayed into it.
        if self._compared.get(node_id) is not image and node.raft.applied.offset == self._end:
            self._compared[node_id] = image
            self.compare(node_id, image)

    def _check_controller(self, node_id: int, node: Node) -> None:
        controller = node.controller
        if controller is not None and controller.is_active:
            self._leading.add(node_id)
        elif node_id in self._leading:
            self._leading.discard(node_id)
            if controller is not None and _state(controller._machine.image) != _state(node.metadata.image):
                raise InvariantBrokenError(INACTIVE_IS_COMMITTED, f"node {node_id} has uncommitted state")

    def compare(self, node_id: int, image: MetadataImage) -> None:
        for what, state in _state(image).items():
            expected = _state(self.image)[what]
            if state != expected:
                raise InvariantBrokenError(
                    SNAPSHOT_EQUALS_LOG,
                    f"node {node_id} has at offset {self._end} {what} {state}, the log says {expected}",
                )

    def is_current(self, node: Node) -> bool:
        return node.raft.applied.offset == self._end

    def _check_name(self, node_id: int, snapshot: SnapshotId) -> None:
        epoch = self._epochs.get(snapshot.offset)
        if snapshot.offset <= self._end and epoch != snapshot.epoch:
            raise InvariantBrokenError(
                SNAPSHOT_ID_EXISTS, f"node {node_id} has {snapshot}, a batch of epoch {epoch} ends there"
            )

    # -- partitions ------------------------------------------------------------------------------------------

    def _replay(self, record: Message) -> None:
        if not isinstance(record, PartitionChangeRecord):
            self.image.replay(record)
            return
        topic = self.image.topics.by_id[record.topic_id]
        tp = TopicPartition(topic.name, record.partition_id)
        before = partition_in(self.image, tp)
        self.image.replay(record)
        after = partition_in(self.image, tp)
        assert before is not None, "the log has the partition before it changes it"
        assert after is not None, "a change does not remove a partition"
        if not set(after.isr) <= set(after.replicas) or after.leader not in (NO_LEADER, *after.isr):
            raise InvariantBrokenError(ISR_IS_OF_REPLICAS, f"{tp}: {after}")
        self._check_reassignment(tp, before, after)

    def _check_reassignment(self, tp: TopicPartition, before: PartitionImage, after: PartitionImage) -> None:
        if before.replicas == after.replicas and before.removing == after.removing:
            return
        original_replicas = self._original_replicas.setdefault(tp, frozenset(before.replicas))
        if after.adding or after.removing:
            missing = original_replicas - set(after.replicas)
            if missing:
                raise InvariantBrokenError(REASSIGNMENT_COMPLETES, f"{tp} has lost {missing}: {after}")
            return
        del self._original_replicas[tp]
        replicas = set(after.replicas)
        if replicas != original_replicas and not replicas <= set(after.isr):
            raise InvariantBrokenError(
                REASSIGNMENT_COMPLETES,
                f"the move of {tp} from {sorted(original_replicas)} has ended: {before} → {after}",
            )


def _state(image: MetadataImage) -> dict[str, object]:
    """The whole state, not derived from the records of a snapshot."""
    security = image.security
    return {
        "features": image.features.finalized,
        "brokers": image.cluster.brokers,
        "controllers": image.cluster.controllers,
        "topics": {name: (topic.id, tuple(topic.partitions)) for name, topic in image.topics.by_name.items()},
        "configs": image.configs.by_resource,
        "credentials": (security.quotas, security.acls, security.scram_credentials, security.tokens),
        "the next producer id": image.next_producer_id,
    }
