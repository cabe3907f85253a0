"""Records that cannot be decoded, on their way to a topic of their own.

A dead letter is the record as it was, with headers that say where it came from and what is wrong with it. It
is acked before the rows around it reach Spark, so that none is lost; a task that runs twice sends it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from ruslo.client.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.rows import Rows
from ruslo.pipeline.source.options import SourceOptions
from ruslo.records.builder import build_batch
from ruslo.records.record import Header, Record
from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC

_BATCH_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class DeadLetter:
    source: TopicPartition
    record: Record

    @classmethod
    def of(cls, source: TopicPartition, rows: Rows, row: int, reason: str) -> Self:
        offset = int(rows.offsets[row])
        about: tuple[Header, ...] = (
            (REASON, reason.encode(errors="replace")),
            (TOPIC, source.topic.encode()),
            (PARTITION, str(source.partition).encode()),
            (OFFSET, str(offset).encode()),
        )
        record = Record(
            0, int(rows.timestamps[row]), rows.key(row), rows.value(row), (*rows.headers(row), *about)
        )
        return cls(source, record)

    @property
    def size_bytes(self) -> int:
        record = self.record
        content = sum(len(name) + len(value or b"") for name, value in record.headers)
        return content + len(record.key or b"") + len(record.value or b"")


class DeadLetters:
    """Opens its connection with the first letter; used by one thread."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.dead_letter_topic is not None, "options were parsed"
        self._topic = options.dead_letter_topic
        self._runner = asyncio.Runner()
        self._cluster = options.client.new_cluster()
        self._partition_count = 0

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when the brokers have acked them all."""
        self._runner.run(self._send(letters))

    def close(self) -> None:
        self._runner.run(self._cluster.close())
        self._runner.close()

    async def _send(self, letters: Sequence[DeadLetter]) -> None:
        if not self._partition_count:
            metadata = await self._cluster.retrying(lambda: self._cluster.metadata([self._topic]))
            self._partition_count = len(metadata.topic(self._topic).partitions)
        batches: dict[int, list[DeadLetter]] = {}
        for letter in letters:
            batches.setdefault(letter.source.partition % self._partition_count, []).append(letter)
        for partition, waiting in batches.items():
            for group in _groups(waiting):
                await self._produce(TopicPartition(self._topic, partition), group)

    async def _produce(self, partition: TopicPartition, letters: Sequence[DeadLetter]) -> None:
        records = [letter.record._replace(offset=at) for at, letter in enumerate(letters)]
        try:
            await RawClient(self._cluster).produce({partition: build_batch(records)})
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            raise KafkaError(
                error.code,
                f"a dead letter is larger than {self._topic} takes: raise max.message.bytes of that topic",
            ) from error


def _groups(letters: Sequence[DeadLetter]) -> list[list[DeadLetter]]:
    """Runs of letters that make batches of a usual size; a large letter is one by itself."""
    groups: list[list[DeadLetter]] = []
    room = 0
    for letter in letters:
        if not groups or letter.size_bytes > room:
            groups.append([])
            room = _BATCH_BYTES
        groups[-1].append(letter)
        room -= letter.size_bytes
    return groups
