"""How a task of the source writes dead letters.

| writer | guarantee |
|---|---|
| `DirectWriter` | at least once: brokers acknowledge dead letters before Spark gets the rows around them |
| `StagedWriter` | exactly once: the sink sends them in the transaction of the micro-batch |
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.dead_letters.options import StagingTarget
from ruslo.pipeline.dead_letters.staging import DeadLetterStaging
from ruslo.records.record import Record
from ruslo.runs.dead_letters import batches_by_partition


class DeadLetterWriter(Protocol):
    def write(self, dead_letters: Sequence[Record]) -> None:
        """Returns when the dead letters are acknowledged or staged."""
        ...

    def close(self) -> None: ...


def new_dead_letter_writer(
    client: ClientProperties, topic: str, staging: StagingTarget | None
) -> DeadLetterWriter:
    return DirectWriter(client, topic) if staging is None else StagedWriter(staging)


class StagedWriter:
    def __init__(self, staging: StagingTarget) -> None:
        self._staging = staging

    def write(self, dead_letters: Sequence[Record]) -> None:
        DeadLetterStaging.of_task(self._staging.path, self._staging.sink_name).add(dead_letters)

    def close(self) -> None:
        """``write`` closes its file."""


class DirectWriter:
    """Connects with the first dead letter. Used by one thread."""

    def __init__(self, client: ClientProperties, topic: str) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._cluster = client.new_cluster()
        self._partition_count = 0

    def write(self, dead_letters: Sequence[Record]) -> None:
        self._runner.run(self._write(dead_letters))

    def close(self) -> None:
        self._runner.run(self._cluster.close())
        self._runner.close()

    async def _write(self, dead_letters: Sequence[Record]) -> None:
        if not self._partition_count:
            metadata = await self._cluster.retrying(lambda: self._cluster.metadata([self._topic]))
            self._partition_count = len(metadata.topic(self._topic).partitions)
        targets = batches_by_partition(dead_letters, self._topic, self._partition_count)
        for partition, batches in targets.items():
            for batch in batches:
                await self._produce(partition, batch)

    async def _produce(self, partition: TopicPartition, batch: bytearray) -> None:
        try:
            await RawClient(self._cluster).produce({partition: batch})
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            raise KafkaError(
                error.code,
                f"a dead letter is larger than {self._topic} accepts: raise max.message.bytes of that topic",
            ) from error
