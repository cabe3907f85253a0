"""Topics: create, list, describe, delete, add partitions, delete records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ruslo.client.wire.by_topic import by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.metadata import ClusterMetadata, TopicInfo
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of, result_of
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
_LEADER_WAIT_S = 10.0
HIGH_WATERMARK = -1
"""An offset for ``delete_records``: delete all records."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 means the broker's default. ``assignments`` (replicas by partition) replaces both numbers."""

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
        """The created topic, or the error, by name. Returns when the created topics have leaders."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=_TIMEOUT_MS,
            validate_only=validate_only,
        )

        async def attempt() -> CreateTopicsResponse:
            response = await self._cluster.controller(request, CreateTopicsResponse, min_version=4)
            _raise_not_controller(topic.error_code for topic in response.topics)
            return response

        results = {
            topic.name: result_of(
                topic.error_code,
                topic.error_message,
                CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor),
            )
            for topic in (await self._cluster.retrying(attempt)).topics
        }
        if not validate_only:
            await self._wait_for_leaders(
                [name for name, result in results.items() if isinstance(result, CreatedTopic)]
            )
        return results

    async def _wait_for_leaders(self, names: Sequence[str]) -> None:
        """Brokers learn of a new topic shortly after the controller has responded.

        A user may be allowed to create a topic but not to describe it: such a topic is not waited for.
        """
        if not names:
            return
        pause_s = 0.005
        async with asyncio.timeout(_LEADER_WAIT_S):
            while True:
                metadata = await self._cluster.metadata(names)
                if all(_has_leaders(metadata, name) for name in names):
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
            _raise_not_controller(topic.error_code for topic in response.responses)
            return response

        return {
            topic.name or "": result_of(topic.error_code, topic.error_message, None)
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
        """Delete records before the given offsets; returns the new log start offset by partition."""

        async def query(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            topics = by_topic(
                (tp, DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])) for tp in owned
            )
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=_TIMEOUT_MS,
            )
            response = await self._cluster.node(node, request, DeleteRecordsResponse)
            results: dict[TopicPartition, int | KafkaError] = {}
            for topic in response.topics:
                for part in topic.partitions:
                    tp = TopicPartition(topic.name, part.partition_index)
                    results[tp] = part.low_watermark
                    if part.error_code:
                        what = "all records" if before[tp] < 0 else f"records before offset {before[tp]}"
                        results[tp] = error_of(part.error_code, f"{tp}: {what} cannot be deleted")
            return results

        return await self._cluster.each_leader(list(before), query)


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


def _has_leaders(metadata: ClusterMetadata, name: str) -> bool:
    topic = metadata.topics.get(name)
    if topic is None:
        error = metadata.errors.get(name)
        return error is not None and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return all(partition.leader_id >= 0 for partition in topic.partitions)


def _raise_not_controller(codes: Iterable[int]) -> None:
    """A controller that has just resigned returns this for every topic: retry with the new one."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the controller has changed")
