"""Committed offsets, and pending offsets of open transactions.

A pending offset waits for the marker of its producer's transaction. If another offset of the partition was
committed meanwhile, the record with the higher log offset wins, not the later marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.records import NO_TIMESTAMP
from ruslo.model.ids import ZERO_UUID, Uuid


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP
    """The expire timestamp that old versions of the request may set."""
    topic_id: Uuid = ZERO_UUID
    """ZERO_UUID if unknown: transactional and old records do not contain it."""
    record_offset: int = -1
    """The offset of its record in ``__consumer_offsets``."""


TopicOffsets: TypeAlias = dict[int, CommittedOffset]
"""By partition."""
GroupOffsets: TypeAlias = dict[str, TopicOffsets]
"""By topic."""
_Key: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""

_NO_GROUP: GroupOffsets = {}


class OffsetStore:
    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[_Key, CommittedOffset]] = {}
        """Pending offsets by producer id."""
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """The producers with a pending offset, by group, topic and partition."""

    def of_group(self, group_id: str) -> GroupOffsets:
        """The group's committed offsets, for reading only."""
        return self._committed.get(group_id, _NO_GROUP)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self._committed.get(group_id, _NO_GROUP).get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction contains an offset of the partition."""
        of_group = self._open.get(group_id)
        return of_group is not None and (topic, partition) in of_group

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def last_record_offset(self, group_id: str, topic: str, partition: int) -> int | None:
        """The log offset of the partition's latest record, committed or pending; None if there is none."""
        key = (group_id, topic, partition)
        producers = self._open.get(group_id, {}).get((topic, partition), ())
        known = [self._pending[producer_id][key] for producer_id in producers]
        committed = self.get(*key)
        if committed is not None:
            known.append(committed)
        return max((each.record_offset for each in known), default=None)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, committed or pending."""
        committed = self.get(group_id, topic, partition) is not None
        return committed or self.is_pending(group_id, topic, partition)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def group_ids(self) -> set[str]:
        return self._committed.keys() | self._open.keys()

    def partitions_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Every topic and partition with an offset, committed or pending."""
        committed = self._committed.get(group_id, _NO_GROUP)
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self._open.get(group_id, ()):
            if partition not in committed.get(topic, ()):
                yield topic, partition

    # -- what replay does ------------------------------------------------------------------------------------

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        of_group = self._committed.get(group_id)
        if of_group is None:
            of_group = self._committed[group_id] = {}
        of_topic = of_group.get(topic)
        if of_topic is None:
            of_topic = of_group[topic] = {}
        of_topic[partition] = offset

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset
    ) -> None:
        self._pending.setdefault(producer_id, {})[group_id, topic, partition] = offset
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone: remove the committed offset and all pending offsets of the partition."""
        of_group = self._committed.get(group_id)
        if of_group is not None and topic in of_group:
            of_topic = of_group[topic]
            of_topic.pop(partition, None)
            if not of_topic:
                del of_group[topic]
                if not of_group:
                    del self._committed[group_id]
        producers = self._open.get(group_id, {}).get((topic, partition), ())
        for producer_id in list(producers):
            self._take_pending(producer_id, (group_id, topic, partition))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the transaction's marker: publish its pending offsets, or drop them."""
        for key in list(self._pending.get(producer_id, ())):
            offset = self._take_pending(producer_id, key)
            if committed:
                known = self.get(*key)
                if known is None or known.record_offset < offset.record_offset:
                    self.put(*key, offset)

    def _take_pending(self, producer_id: int, key: _Key) -> CommittedOffset:
        of_producer = self._pending[producer_id]
        offset = of_producer.pop(key)
        if not of_producer:
            del self._pending[producer_id]
        group_id, topic, partition = key
        of_group = self._open[group_id]
        producers = of_group[topic, partition]
        producers.discard(producer_id)
        if not producers:
            del of_group[topic, partition]
            if not of_group:
                del self._open[group_id]
        return offset
