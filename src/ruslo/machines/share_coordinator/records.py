"""The records of ``__share_group_state``, and the state that they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.machines.share_coordinator.state_batches import StateBatch
from ruslo.model.ids import Uuid, uuid_from_text, uuid_to_text

UNKNOWN_EPOCH = -1
UNINITIALIZED_START_OFFSET = -1
UNKNOWN_COUNT = -1


class ShareKey(NamedTuple):
    """A share-partition: a partition of a topic as one share group sees it."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """Kafka's text of the key. Its hash chooses the partition of ``__share_group_state``."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> ShareKey:
        """The key with this text; a group id may contain colons. Raises ValueError."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError("the group id is empty")
        return cls(group_id, uuid_from_text(topic_id), int(partition))


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """The whole state of a share-partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    create_ms: int = 0
    write_ms: int = 0
    batches: list[StateBatch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """What changed since the snapshot with this epoch; an epoch, count or offset of -1 did not change."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: list[StateBatch] = field(default_factory=list)


class ShareRecord(NamedTuple):
    key: ShareKey
    value: ShareSnapshot | ShareUpdate | None
    """None: the state is deleted."""
