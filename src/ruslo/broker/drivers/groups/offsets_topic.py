"""Makes ``__consumer_offsets`` when the first client looks for a coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS = 30_000


class ControllerChannel(Protocol):
    def submit(self, request: Message) -> asyncio.Future[Message]: ...


class OffsetsTopic:
    """One creation at a time serves all clients that ask for it."""

    def __init__(self, config: Callable[[], BrokerConfig], controller: ControllerChannel) -> None:
        self._config = config
        self._controller = controller
        self._creation: asyncio.Task[None] | None = None
        self._last_problem: str | None = None

    async def create(self) -> None:
        """Create the topic, or wait for the creation that is under way; what goes wrong is in the log."""
        if self._creation is None:
            self._creation = asyncio.get_running_loop().create_task(self._create())
            self._creation.add_done_callback(self._created)
        await asyncio.wait([self._creation])

    async def stop(self) -> None:
        if self._creation is not None:
            self._creation.cancel()
            await asyncio.gather(self._creation, return_exceptions=True)

    def _created(self, creation: asyncio.Task[None]) -> None:
        self._creation = None
        if not creation.cancelled() and (error := creation.exception()) is not None:
            self._report(f"{GROUP_OFFSETS_TOPIC} cannot be created: {error}")

    async def _create(self) -> None:
        config = self._config()
        topic = CreatableTopic(
            name=GROUP_OFFSETS_TOPIC,
            num_partitions=config.int("offsets.topic.num.partitions"),
            replication_factor=config.int("offsets.topic.replication.factor"),
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(
                    name="segment.bytes", value=str(config.int("offsets.topic.segment.bytes"))
                ),
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATION_TIMEOUT_MS)
        response = await asyncio.wait_for(self._controller.submit(request), CREATION_TIMEOUT_MS / 1000)
        assert isinstance(response, CreateTopicsResponse)
        (result,) = response.topics
        code = ErrorCode(result.error_code)
        if code is ErrorCode.INVALID_REPLICATION_FACTOR:
            self._report(
                f"{GROUP_OFFSETS_TOPIC} cannot be created, and without it there are no consumer groups: "
                f"{result.error_message}. Start more brokers or lower offsets.topic.replication.factor "
                f"(now {topic.replication_factor})"
            )
        elif code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, result.error_message)

    def _report(self, problem: str) -> None:
        # Clients ask several times a second: say it once for each reason.
        if problem != self._last_problem:
            self._last_problem = problem
            logger.error("%s", problem)
