"""Creates the internal topics of streams groups for their members, who need CREATE on them (KIP-1071)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.machines.groups.streams.configured_topology import InternalTopic
from ruslo.machines.groups.streams.internal_topics import creatable_topics
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.apis import API_BY_NAME
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse

logger = logging.getLogger(__name__)

MAX_FAILURES = 10_000
"""Groups whose failure is remembered; the oldest are forgotten first."""
SHOWN_TOPICS = 3
_CREATION_TIMEOUT_MS = 30_000
_CREATE_VERSION = API_BY_NAME["CreateTopics"].max_version
_DONE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Failure(NamedTuple):
    """Topics of a group that could not be created."""

    topic_count: int
    examples: Mapping[str, str]
    """The reasons for the first few, by name."""
    until_ms: int
    """The group's topics are not tried again earlier."""


class InternalTopicCreator:
    def __init__(self, gateway: ControllerGateway, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._in_creation: set[str] = set()
        """The groups with a request under way."""
        self._failures: dict[str, Failure] = {}
        """By group, the oldest first."""
        self._tasks = BackgroundTasks()

    def create(
        self, group_id: str, topics: Sequence[InternalTopic], context: RequestContext, *, retry_ms: int
    ) -> None:
        """Start the creation, unless an earlier one for the group is under way, or failed in ``retry_ms``."""
        if not topics or group_id in self._in_creation or self.failure(group_id) is not None:
            return
        self._in_creation.add(group_id)
        request = CreateTopicsRequest(topics=creatable_topics(topics), timeout_ms=_CREATION_TIMEOUT_MS)
        # The controller authorizes the client, not this broker.
        as_client = context._replace(api_version=_CREATE_VERSION, api_name="CreateTopics")
        creation = self._tasks.start(self._gateway.forward(request, as_client))
        names = [topic.name for topic in topics]
        creation.add_done_callback(partial(self._on_done, group_id, names, retry_ms))

    def failure(self, group_id: str) -> Failure | None:
        """Why topics of the group could not be created lately."""
        failure = self._failures.get(group_id)
        return None if failure is None or self._clock.monotonic_ms() >= failure.until_ms else failure

    async def stop(self) -> None:
        await self._tasks.stop()

    def _on_done(
        self, group_id: str, names: Sequence[str], retry_ms: int, creation: asyncio.Task[Message]
    ) -> None:
        self._in_creation.discard(group_id)
        self._failures.pop(group_id, None)
        if creation.cancelled():
            return
        failed = _failed(names, creation)
        if not failed:
            return
        examples = dict(islice(failed.items(), SHOWN_TOPICS))
        self._failures[group_id] = Failure(len(failed), examples, self._clock.monotonic_ms() + retry_ms)
        if len(self._failures) > MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
        name, reason = next(iter(examples.items()))
        logger.warning(
            "Could not create %d of %d internal topics of streams group %s, such as %s: %s",
            len(failed),
            len(names),
            group_id,
            name,
            reason,
        )


def _failed(names: Sequence[str], creation: asyncio.Task[Message]) -> Mapping[str, str]:
    """The reasons why topics were not created, by name."""
    error = creation.exception()
    if error is not None:
        if not isinstance(error, KafkaError):
            logger.error("Creating internal topics of a streams group failed", exc_info=error)
        return dict.fromkeys(names, str(error))
    response = creation.result()
    assert isinstance(response, CreateTopicsResponse)
    return {
        topic.name: topic.error_message or ErrorCode(topic.error_code).name
        for topic in response.topics
        if topic.error_code not in _DONE
    }
