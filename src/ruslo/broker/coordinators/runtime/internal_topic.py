"""Creates a coordinator's topic when the first client looks for a coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    purpose: str
    """What does not work without the topic, for log lines."""
    partitions_key: str
    replication_key: str
    configs: Mapping[str, str]
    """Topic configs with fixed values."""
    configs_from: Mapping[str, str]
    """Topic configs that take the value of a broker config: topic config to broker config."""


OFFSETS_PLAN = TopicPlan(
    GROUP_OFFSETS_TOPIC,
    "consumer groups",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    {"cleanup.policy": "compact", "compression.type": "producer"},
    {"segment.bytes": "offsets.topic.segment.bytes"},
)
TRANSACTIONS_PLAN = TopicPlan(
    TRANSACTION_STATE_TOPIC,
    "transactions",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    {
        "min.insync.replicas": "transaction.state.log.min.isr",
        "segment.bytes": "transaction.state.log.segment.bytes",
    },
)
SHARE_STATE_PLAN = TopicPlan(
    SHARE_STATE_TOPIC,
    "share groups",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    # The share coordinator itself deletes the records that it does not need.
    {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    {
        "min.insync.replicas": "share.coordinator.state.topic.min.isr",
        "segment.bytes": "share.coordinator.state.topic.segment.bytes",
    },
)


class ControllerChannel(Protocol):
    def submit(self, request: Message) -> asyncio.Future[Message]: ...


class InternalTopic:
    """Creates the topic at most once at a time, for all waiting clients."""

    def __init__(
        self, plan: TopicPlan, config: Callable[[], BrokerConfig], controller: ControllerChannel
    ) -> None:
        self.name = plan.name
        self._plan = plan
        self._config = config
        self._controller = controller
        self._creation: asyncio.Task[None] | None = None
        self._last_failure: str | None = None

    async def create(self) -> None:
        """Create the topic, or wait for the creation in progress; failures are logged."""
        if self._creation is None:
            self._creation = asyncio.get_running_loop().create_task(self._create())
            self._creation.add_done_callback(self._created)
        await asyncio.wait([self._creation])

    async def stop(self) -> None:
        await cancel_all(self._creation)

    def _created(self, creation: asyncio.Task[None]) -> None:
        self._creation = None
        if not creation.cancelled() and (error := creation.exception()) is not None:
            self._report(f"Creating {self.name} failed: {error}")

    async def _create(self) -> None:
        plan, config = self._plan, self._config()
        settings = dict(plan.configs) | {
            name: str(config.int(key)) for name, key in plan.configs_from.items()
        }
        topic = CreatableTopic(
            name=plan.name,
            num_partitions=config.int(plan.partitions_key),
            replication_factor=config.int(plan.replication_key),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATION_TIMEOUT_MS)
        response = await asyncio.wait_for(self._controller.submit(request), CREATION_TIMEOUT_MS / 1000)
        assert isinstance(response, CreateTopicsResponse)
        (result,) = response.topics
        code = ErrorCode(result.error_code)
        if code is ErrorCode.INVALID_REPLICATION_FACTOR:
            self._report(
                f"Creating {plan.name} failed, so {plan.purpose} are not available: {result.error_message}. "
                f"Start more brokers or lower {plan.replication_key} (now {topic.replication_factor})."
            )
        elif code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, result.error_message)

    def _report(self, failure: str) -> None:
        # Clients retry several times a second: log each reason once.
        if failure != self._last_failure:
            self._last_failure = failure
            logger.error("%s", failure)
