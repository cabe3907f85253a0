"""Records that cannot be decoded, on their way to a topic of their own.

A dead letter is the record as it was, with headers that say where it came from and what is wrong with it.
Sent by the task it is acked before the rows around it reach Spark, so that none is lost, but a task that runs
twice sends it twice. Staged for a sink it becomes part of the batch's transaction, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.rows import Rows
from ruslo.pipeline.source.options import LetterStaging, SourceOptions
from ruslo.pipeline.staged_letters import LetterBox, about, letter_batches
from ruslo.records.record import Record


@dataclass(frozen=True, slots=True)
class DeadLetter:
    source: TopicPartition
    record: Record

    @classmethod
    def of(cls, source: TopicPartition, rows: Rows, row: int, reason: str) -> Self:
        headers = (*rows.headers(row), *about(source, int(rows.offsets[row]), reason))
        return cls(source, Record(0, int(rows.timestamps[row]), rows.key(row), rows.value(row), headers))


class DeadLetters(Protocol):
    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when they are safe."""
        ...

    def close(self) -> None: ...


def new_dead_letters(options: SourceOptions) -> DeadLetters:
    assert options.dead_letter_topic is not None, "options were parsed"
    if options.letter_staging is not None:
        return StagedLetters(options.letter_staging)
    return SentLetters(options, options.dead_letter_topic)


class StagedLetters:
    """For the sink of the query, which sends them in its transaction."""

    def __init__(self, staging: LetterStaging) -> None:
        self._staging = staging

    def send(self, letters: Sequence[DeadLetter]) -> None:
        box = LetterBox.of_task(self._staging.path, self._staging.sink_name)
        box.put([letter.record for letter in letters])

    def close(self) -> None:
        """Each call of ``send`` has closed what it opened."""


class SentLetters:
    """Opens its connection with the first letter; used by one thread."""

    def __init__(self, options: SourceOptions, topic: str) -> None:
        self._topic = topic
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
        by_partition: dict[int, list[Record]] = {}
        for letter in letters:
            by_partition.setdefault(letter.source.partition % self._partition_count, []).append(letter.record)
        for partition, records in by_partition.items():
            for batch in letter_batches(records):
                await self._produce(TopicPartition(self._topic, partition), batch)

    async def _produce(self, partition: TopicPartition, batch: bytearray) -> None:
        try:
            await RawClient(self._cluster).produce({partition: batch})
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            raise KafkaError(
                error.code,
                f"a dead letter is larger than {self._topic} takes: raise max.message.bytes of that topic",
            ) from error
