"""Replicas of this broker that may have lost data, found when the broker starts.

The directory of such a replica is missing or has no topic id, or its log ends before its checkpoints. If an
empty or short log led, its followers would truncate theirs. So before the broker is unfenced, it assigns the
replica to the LOST directory (KIP-858). The controller then removes the replica from the ISR, the ELR and all
elections except those that an operator requests. The replica is not opened until

- another broker leads: then the replica follows it and catches up;
- an operator elects it;
- no other replica has more: it is the only one, or the others are LOST too. Then the loss is final.

The metadata keeps LOST, so this also holds after a restart.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Protocol

from ruslo.machines.controller.topic_image import NO_LEADER, RECOVERING, PartitionImage, TopicImage
from ruslo.model.ids import LOST_DIR, ZERO_UUID, Uuid
from ruslo.model.log_ids import log_ids
from ruslo.model.topics import TopicPartition
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from ruslo.storage.lost_data import UNKNOWN_OFFSET, LossKind, LostData

logger = logging.getLogger(__name__)


class DirectoryAssignments(Protocol):
    """Reports the log directory of each replica of this broker to the controller (KIP-858)."""

    def assign(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None: ...

    def on_directory_failure(self, directory_id: Uuid) -> None: ...


@dataclass(slots=True, eq=False)
class LostReplicas:
    _node_id: int
    _logs: LogManager
    _assignments: DirectoryAssignments
    _losses: dict[tuple[Uuid, int], LostData] = field(default_factory=dict)
    """The replicas that must not be opened, by topic id and partition."""

    def __contains__(self, replica: tuple[Uuid, int]) -> bool:
        return replica in self._losses

    def __len__(self) -> int:
        return len(self._losses)

    def forget(self, topic: TopicImage, index: int) -> bool:
        """The replica was removed from this broker; returns whether it was held back."""
        self._logs.lost_data.forget(TopicPartition(topic.name, index))
        return self._losses.pop((topic.id, index), None) is not None

    def hold_back(self, topic: TopicImage, index: int, *, starting: bool) -> bool:
        """Whether the replica must not be opened, according to the present metadata.

        ``starting``: the assignment may be older than this process, so the replica may have had data.
        """
        image = topic.partitions[index]
        loss = self._losses.get((topic.id, index))
        if loss is None and (starting or image.directory_of(self._node_id) == LOST_DIR):
            loss = self._find_loss(topic, index, image)
        if loss is None:
            return False
        if self._may_open(image, loss):
            self._losses.pop((topic.id, index), None)
            self._report(image, loss)
            return False
        if (topic.id, index) not in self._losses:
            self._losses[topic.id, index] = loss
            if self._had_data(image, loss.partition):
                self._logs.lost_data.add(loss)
        if image.directory_of(self._node_id) != LOST_DIR:
            self._assignments.assign(topic.id, index, LOST_DIR)
        return True

    def opened(self, image: PartitionImage, log: Log) -> None:
        """Continue the log of a sole replica after the lost offsets: no offset is assigned twice."""
        log.lost_tail = None
        if image.replicas != (self._node_id,):
            return
        lost = (each for each in self._logs.lost_data if each.partition == log.partition)
        proven_end = max((each.end_offset for each in lost), default=UNKNOWN_OFFSET)
        if proven_end > log.end_offset:
            self._logs.fill_gap_to(log, proven_end)

    def _find_loss(self, topic: TopicImage, index: int, image: PartitionImage) -> LostData | None:
        partition = TopicPartition(topic.name, index)
        log = self._logs.get(partition)
        if log is None:
            return self._whole(
                partition, "its directory is missing", self._logs.checkpointed_end_offset(partition)
            )
        if log.topic_id == ZERO_UUID and self._proves_topic(log, image):
            logger.warning(
                "Recovered the topic id of %s from the metadata: %s had none",
                partition,
                log.path,
                extra=log_ids(partition=partition),
            )
            log.assign_topic_id(topic.id)
        if log.topic_id == ZERO_UUID:
            end = self._logs.checkpointed_end_offset(partition)
            return self._whole(partition, f"{log.path} has no topic id", end)
        if log.topic_id != topic.id:
            return self._whole(partition, f"{log.path} belongs to another topic", None)
        if log.lost_tail is None and image.directory_of(self._node_id) == LOST_DIR:
            return LostData(
                partition, LossKind.UNSYNCED_TAIL, f"{log.path} was too short at an earlier start"
            )
        return log.lost_tail

    def _proves_topic(self, log: Log, image: PartitionImage) -> bool:
        """Whether a log without a topic id belongs to this partition.

        A replica that may lead because of its records had a log of this topic under the same name.
        """
        return (
            log.end_offset > log.start_offset
            and self._node_id in _with_all_records(image)
            and log.epochs.latest <= image.leader_epoch
        )

    def _whole(self, partition: TopicPartition, detail: str, end_offset: int | None) -> LostData:
        offsets = () if end_offset is None else (0, end_offset)
        return LostData(partition, LossKind.REPLICA, detail, *offsets)

    def _may_open(self, image: PartitionImage, loss: LostData) -> bool:
        me = self._node_id
        if image.replicas == (me,):
            return True
        is_reported = image.directory_of(me) == LOST_DIR
        if image.leader not in (NO_LEADER, me):
            return is_reported or me not in _with_all_records(image)
        if image.leader == me:
            return is_reported and image.recovery_state == RECOVERING
        # A power failure loses what was only in the page cache, possibly on other replicas too.
        rivals = image.replicas
        if loss.kind is LossKind.UNSYNCED_TAIL:
            rivals = _with_all_records(image) or rivals
        return is_reported and all(
            image.directory_of(each) == LOST_DIR for each in rivals if each in image.replicas
        )

    def _report(self, image: PartitionImage, loss: LostData) -> None:
        if image.leader not in (NO_LEADER, self._node_id):
            self._logs.lost_data.forget(loss.partition)
            if self._had_data(image, loss.partition):
                logger.error(
                    "Fetching the replica of %s again from leader %d: %s",
                    loss.partition,
                    image.leader,
                    loss.detail,
                    extra=log_ids(partition=loss.partition),
                )
        elif self._had_data(image, loss.partition):
            self._logs.lost_data.add(loss)

    def _had_data(self, image: PartitionImage, partition: TopicPartition) -> bool:
        """Whether this broker ever had the replica: it may have been assigned while the broker was down."""
        return (
            self._node_id in _with_all_records(image)
            or self._logs.checkpointed_end_offset(partition) is not None
        )


def _with_all_records(image: PartitionImage) -> tuple[int, ...]:
    """The replicas that may lead because they have, or had, every committed record."""
    return (*image.isr, *image.elr, *image.last_known_elr)
