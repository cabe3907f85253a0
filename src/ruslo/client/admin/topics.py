"""Topics: create, list, describe, delete, add partitions, delete records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.metadata import TopicInfo
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ruslo.protocol.messages.delete_topics_response import DeleteTopicsResponse

_TIMEOUT_MS = 30_000
_VISIBLE_WITHIN_S = 10.0
HIGH_WATERMARK = -1
"""As the offset to delete records before: all that are there."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves a number to the broker's default; ``assignments`` (replicas by partition) replaces both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


class Topics:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self) -> list[TopicInfo]:
        metadata = await self._cluster.metadata()
        return [metadata.topics[name] for name in sorted(metadata.topics)]

    async def describe(self, name: str) -> TopicInfo:
        return (await self._cluster.metadata([name])).topic(name)

    async def create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """By name what was created, or why not. Created topics have leaders when this returns."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=_TIMEOUT_MS,
            validate_only=validate_only,
        )

        async def attempt() -> CreateTopicsResponse:
            response = await self._cluster.controller(request, CreateTopicsResponse, min_version=4)
            _raise_if_elsewhere(topic.error_code for topic in response.topics)
            return response

        results: dict[str, CreatedTopic | KafkaError] = {}
        for topic in (await self._cluster.retrying(attempt)).topics:
            if topic.error_code == ErrorCode.NONE:
                results[topic.name] = CreatedTopic(
                    topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor
                )
            else:
                results[topic.name] = error_of(topic.error_code, topic.error_message)
        if not validate_only:
            await self._until_led(
                [name for name, result in results.items() if isinstance(result, CreatedTopic)]
            )
        return results

    async def _until_led(self, names: Sequence[str]) -> None:
        """The controller has answered, but the broker we ask next may hear of the topic a moment later."""
        if not names:
            return
        pause_s = 0.005
        async with asyncio.timeout(_VISIBLE_WITHIN_S):
            while True:
                metadata = await self._cluster.metadata(names)
                found = [metadata.topics.get(name) for name in names]
                if all(topic and all(p.leader_id >= 0 for p in topic.partitions) for topic in found):
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.2)

    async def delete(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """By name None, or why it was not deleted."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=_TIMEOUT_MS
        )

        async def attempt() -> DeleteTopicsResponse:
            response = await self._cluster.controller(request, DeleteTopicsResponse, min_version=6)
            _raise_if_elsewhere(topic.error_code for topic in response.responses)
            return response

        return {
            topic.name or "": error_of(topic.error_code, topic.error_message) if topic.error_code else None
            for topic in (await self._cluster.retrying(attempt)).responses
        }

    async def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
            timeout_ms=_TIMEOUT_MS,
            validate_only=validate_only,
        )

        async def attempt() -> None:
            response = await self._cluster.controller(request, CreatePartitionsResponse)
            for topic in response.results:
                if topic.error_code:
                    raise error_of(topic.error_code, topic.error_message or f"topic {topic.name!r}")

        await self._cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before the offset in each partition; answers each one's new start."""

        async def ask(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            by_topic: dict[str, list[DeleteRecordsPartition]] = {}
            for partition in owned:
                by_topic.setdefault(partition.topic, []).append(
                    DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                )
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
                timeout_ms=_TIMEOUT_MS,
            )
            response = await self._cluster.node(node, request, DeleteRecordsResponse)
            answers: dict[TopicPartition, int | KafkaError] = {}
            for topic in response.topics:
                for part in topic.partitions:
                    place = TopicPartition(topic.name, part.partition_index)
                    answers[place] = part.low_watermark
                    if part.error_code:
                        what = (
                            "all records" if before[place] < 0 else f"records before offset {before[place]}"
                        )
                        answers[place] = error_of(part.error_code, f"{place}: {what} cannot be deleted")
            return answers

        return await self._cluster.each_leader(list(before), ask)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )


def _raise_if_elsewhere(codes: Iterable[int]) -> None:
    """A controller that has just lost its office answers so for every topic; the new one must be asked."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the controller has changed")
