"""The sessions of brokers, renewed by their heartbeats. They exist in memory only.

A new active controller has seen no heartbeat yet and gives every unfenced broker a full session to send one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.machines.controller.topic_image import LEADER_UNCHANGED, TopicsImage

if TYPE_CHECKING:
    from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord

CHECKS_PER_SESSION = 8


@dataclass(slots=True)
class Session:
    last_contact_ms: int
    metadata_offset: int = -1
    """The metadata offset that the broker reported."""
    confirmed: bool = True
    """False for this node's own broker at activation, since its former process has ended, and for a broker
    that is being fenced."""


class Sessions:
    __slots__ = ("_by_broker", "registration_offsets", "shutdown_offsets", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._by_broker: dict[int, Session] = {}
        self.registration_offsets: dict[int, int] = {}
        """The offset of each broker's RegisterBrokerRecord: a broker that has replayed it is caught up."""
        self.shutdown_offsets: dict[int, int] = {}
        """For each broker in controlled shutdown: the offset at which the last leadership moved away from
        it."""

    def start(self, broker_id: int, now_ms: int, *, confirmed: bool = True) -> None:
        self._by_broker[broker_id] = Session(now_ms, confirmed=confirmed)

    def touch(self, broker_id: int, metadata_offset: int, now_ms: int) -> None:
        session = self._by_broker.setdefault(broker_id, Session(now_ms))
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset
        session.confirmed = True

    def end(self, broker_id: int) -> None:
        self._by_broker.pop(broker_id, None)

    def expire(self, broker_id: int, now_ms: int) -> None:
        """End the session, but check the broker once more: the log may reject the records that fence it."""
        check_again_ms = now_ms + self.timeout_ms // CHECKS_PER_SESSION
        self._by_broker[broker_id] = Session(check_again_ms - self.timeout_ms, confirmed=False)

    def note_partition_change(self, record: PartitionChangeRecord, topics: TopicsImage, offset: int) -> None:
        """Called before the record is replayed: the leadership may move away from a broker that shuts
        down."""
        partition = topics.partition(record.topic_id, record.partition_id)
        if (
            partition is not None
            and partition.leader in self.shutdown_offsets
            and record.leader not in (LEADER_UNCHANGED, partition.leader)
        ):
            self.shutdown_offsets[partition.leader] = offset

    def clear(self) -> None:
        self._by_broker.clear()

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self._by_broker.get(broker_id)
        return (
            session is not None and session.confirmed and now_ms < session.last_contact_ms + self.timeout_ms
        )

    def metadata_offset(self, broker_id: int) -> int:
        session = self._by_broker.get(broker_id)
        return -1 if session is None else session.metadata_offset

    def expired(self, now_ms: int) -> list[int]:
        return [
            broker_id
            for broker_id, session in self._by_broker.items()
            if session.last_contact_ms + self.timeout_ms <= now_ms
        ]

    def next_expiry_ms(self) -> int | None:
        contacts = [session.last_contact_ms for session in self._by_broker.values()]
        return min(contacts) + self.timeout_ms if contacts else None
