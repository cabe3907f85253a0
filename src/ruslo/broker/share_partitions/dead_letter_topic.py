"""The dead-letter topics of share groups: whether one may be used, its creation, and appending to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.ack_wait import AckResult
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.machines.controller.topic_image import TopicImage
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import topic_name_problem
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse

TIMEOUT_MS = 30_000
_ENABLED = "errors.deadletterqueue.group.enable"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_CREATES = "errors.deadletterqueue.auto.create.topics.enable"
_USE_DEFAULT = -1


class Controllers(Protocol):
    def submit(self, request: Message) -> asyncio.Future[Message]: ...


@dataclass(eq=False)
class DeadLetterTopics:
    _dynamic_config: DynamicConfig
    _metadata: MetadataLoader
    _partitions: PartitionManager
    _links: BrokerLinks
    _controllers: Controllers
    _clock: Clock
    _node_id: int

    async def ready(self, name: str) -> None:
        """Create the topic if the configuration allows it. Raises KafkaError if the topic is unsuitable."""
        config = self._dynamic_config.current
        prefix = config.str(_PREFIX)
        problem = topic_name_problem(name)
        if problem is not None or name.startswith("__"):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                problem or f"{name} begins with __, as internal topics do. Choose another dead-letter topic",
            )
        if not name.startswith(prefix):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name} does not begin with {prefix} ({_PREFIX}). Choose another dead-letter topic",
            )
        if self._topic(name) is None:
            if not config.bool(_CREATES):
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{name} does not exist: create it with {_ENABLED}=true, or set {_CREATES}=true",
                )
            await self._create(name)
        elif not self._dynamic_config.log_config(name).errors_deadletterqueue_group_enable:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} takes no dead letters: set {_ENABLED}=true on it"
            )

    def max_bytes(self, name: str) -> int:
        """The maximum size of a batch in the topic."""
        return self._dynamic_config.log_config(name).max_message_bytes

    async def append(self, name: str, source_partition: int, batch: bytearray) -> None:
        """Append a batch for all in-sync replicas. Raises KafkaError."""
        topic = self._topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} does not exist here yet")
        index = source_partition % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader == self._node_id:
            code, message = await self._append_here(name, index, batch)
        elif leader < 0:
            code, message = ErrorCode.LEADER_NOT_AVAILABLE, None
        else:
            code, message = await self._append_there(leader, topic, index, batch)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, message or f"{name}-{index} took no dead letters: {code.name}")

    def _topic(self, name: str) -> TopicImage | None:
        return self._metadata.image.topics.by_name.get(name)

    async def _create(self, name: str) -> None:
        configs = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
        topic = CreatableTopic(
            name=name,
            num_partitions=_USE_DEFAULT,
            replication_factor=_USE_DEFAULT,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        response = await self._controllers.submit(request)
        assert isinstance(response, CreateTopicsResponse)
        (result,) = response.topics
        code = ErrorCode(result.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, f"{name} could not be created: {result.error_message}")

    async def _append_here(self, name: str, index: int, batch: bytearray) -> tuple[ErrorCode, str | None]:
        try:
            appended = self._partitions.get(name, index).append(
                memoryview(batch), self._clock.now_ms(), acks_all=True
            )
        except StorageError as error:
            self._partitions.storage_failed(error)
            return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        acked: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()
        appended.when_committed(TIMEOUT_MS, lambda result: None if acked.done() else acked.set_result(result))
        return (await acked).value, None

    async def _append_there(
        self, leader: int, topic: TopicImage, index: int, batch: bytearray
    ) -> tuple[ErrorCode, str | None]:
        data = [PartitionProduceData(index=index, records=batch)]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=data)],
        )
        response = await self._links.request(leader, request, ProduceResponse)
        assert isinstance(response, ProduceResponse)
        result = response.responses[0].partition_responses[0]
        return ErrorCode(result.error_code), result.error_message
