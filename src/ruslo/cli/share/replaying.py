"""Sends the records of a share group's dead letters again, each one once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.wire.raw import RawClient
from ruslo.client.wire.transactional import TransactionalProducer
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import CONTROL
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record
from ruslo.runs.dead_letters import record_batches

_TOPIC_CONFIG = "errors.deadletterqueue.topic.name"
_PREFIX = "__dlq.errors."
_TRANSACTION_RECORDS = 500


class _Letter(NamedTuple):
    source: TopicPartition
    offset: int
    record: Record


@dataclass
class Replayed:
    dead_letter_topic: str
    records: Counter[str] = field(default_factory=Counter)
    """Records sent, by topic."""
    lost: list[tuple[TopicPartition, int]] = field(default_factory=list)
    """Records that the source does not have any more, and whose dead letters have no copy."""


def progress_group(group_id: str) -> str:
    """The group whose offsets in the dead-letter topic say what has been replayed."""
    return f"ruslo-replay-{group_id}"


class Replay:
    """Progress is committed with the records, in one transaction: a repeated replay sends none twice."""

    def __init__(self, admin: Admin, group_id: str, to: str | None, *, dry_run: bool) -> None:
        self._admin = admin
        self._raw = RawClient(admin.cluster)
        self._group_id = group_id
        self._to = to
        self._producer = None if dry_run else TransactionalProducer(admin.cluster, progress_group(group_id))
        self._sources: dict[TopicPartition, dict[int, Record]] = {}
        """The records of the last read of each source."""
        self._partition_counts: dict[str, int] = {}

    async def run(self) -> Replayed:
        entries = await self._admin.configs.describe(Resource.group(self._group_id))
        topic = next((each.value for each in entries if each.name == _TOPIC_CONFIG), None)
        if not topic:
            raise ConfigError(
                f"{self._group_id} has no dead-letter topic: set {_TOPIC_CONFIG} of the group, "
                f"with 'ruslo config set --group {self._group_id}'"
            )
        if self._producer is not None:
            # An earlier replay that was interrupted ends first, so its progress is known.
            await self._producer.init()
        result = Replayed(topic)
        info = await self._admin.topics.describe(topic)
        ranges = await self._admin.offsets.ranges(
            TopicPartition(topic, each.partition) for each in info.partitions
        )
        group = progress_group(self._group_id)
        committed = await self._admin.group_offsets.fetch(group, require_stable=True)
        for tp, (first, end) in ranges.items():
            position = max(first, committed[tp].offset if tp in committed else first)
            while position < end:
                position = await self._replay_some(tp, position, end, result)
        return result

    async def _replay_some(self, tp: TopicPartition, position: int, end: int, result: Replayed) -> int:
        """Replay what one transaction takes; returns where to go on."""
        sent: dict[TopicPartition, list[Record]] = {}
        count, begin = 0, position
        async for offset, record in self._read(tp, position):
            if offset >= end or count >= _TRANSACTION_RECORDS:
                break
            position = offset + 1
            letter = _letter_of(record, self._group_id) if record is not None else None
            if letter is None:
                continue
            found = await self._record_of(letter)
            if found is None:
                result.lost.append((letter.source, letter.offset))
                continue
            target = await self._target(letter.source)
            sent.setdefault(target, []).append(found)
            count += 1
        if position == begin:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{tp} has no records at offset {begin}")
        if self._producer is not None:
            await self._send(self._producer, sent, {tp: position})
        for target, records in sent.items():
            result.records[target.topic] += len(records)
        return position

    async def _send(
        self,
        producer: TransactionalProducer,
        records: dict[TopicPartition, list[Record]],
        progress: dict[TopicPartition, int],
    ) -> None:
        try:
            if records:
                await producer.send({tp: record_batches(listed) for tp, listed in records.items()})
            await producer.commit_offsets(progress_group(self._group_id), progress)
        except KafkaError:
            await producer.abort()
            raise
        await producer.commit()

    async def _read(self, tp: TopicPartition, offset: int) -> AsyncIterator[tuple[int, Record | None]]:
        """The records of one fetch, and the last offset of each batch, which may have no record."""
        fetched = await self._raw.fetch({tp: offset})
        data = memoryview(fetched[tp].records)
        for position, header in iter_batches(data):
            if not header.attributes & CONTROL:
                for record in read_records(data[position : position + header.size]):
                    if record.offset >= offset:
                        yield record.offset, record
            last = header.base_offset + header.last_offset_delta
            if last >= offset:
                yield last, None

    async def _record_of(self, letter: _Letter) -> Record | None:
        """The original record; its copy if the source does not have it any more."""
        known = self._sources.get(letter.source, {})
        if letter.offset not in known:
            known = self._sources[letter.source] = await self._read_source(letter.source, letter.offset)
        original = known.get(letter.offset)
        copy = letter.record
        has_copy = copy.key is not None or copy.value is not None
        if original is None:
            return copy._replace(headers=()) if has_copy else None
        if has_copy and (original.key, original.value) != (copy.key, copy.value):
            # The topic was deleted and created again.
            return copy._replace(headers=())
        return original

    async def _read_source(self, tp: TopicPartition, offset: int) -> dict[int, Record]:
        try:
            return {at: record async for at, record in self._read(tp, offset) if record is not None}
        except KafkaError as error:
            if error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                return {}
            raise

    async def _target(self, source: TopicPartition) -> TopicPartition:
        topic = self._to or source.topic
        if topic not in self._partition_counts:
            self._partition_counts[topic] = len((await self._admin.topics.describe(topic)).partitions)
        return TopicPartition(topic, source.partition % self._partition_counts[topic])


def _letter_of(record: Record, group_id: str) -> _Letter | None:
    """None for a record that is not a dead letter of the group."""
    facts = {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in record.headers
        if name.startswith(_PREFIX) and value is not None
    }
    if facts.get("group") != group_id:
        return None
    topic, partition, offset = facts.get("topic", ""), facts.get("partition", ""), facts.get("offset", "")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        return None
    return _Letter(TopicPartition(topic, int(partition)), int(offset), record)
