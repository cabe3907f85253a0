"""Creates the internal topics of streams groups for their members, who need CREATE on them (KIP-1071)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
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

MAX_FAILURES = 1_000
"""Topics whose failure is remembered; the oldest are forgotten first."""
_CREATION_TIMEOUT_MS = 30_000
_CREATE_VERSION = API_BY_NAME["CreateTopics"].max_version
_DONE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class _Failure(NamedTuple):
    reason: str
    until_ms: int


class InternalTopicCreator:
    def __init__(self, gateway: ControllerGateway, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._in_creation: set[str] = set()
        self._failures: dict[str, _Failure] = {}
        self._tasks = BackgroundTasks()

    def create(self, topics: Sequence[InternalTopic], context: RequestContext, *, retry_ms: int) -> None:
        """Start the creation of topics that no earlier call is creating, or has failed to in ``retry_ms``."""
        failures = self.failures(topic.name for topic in topics)
        wanted = [
            topic for topic in topics if topic.name not in self._in_creation and topic.name not in failures
        ]
        if not wanted:
            return
        names = {topic.name for topic in wanted}
        self._in_creation |= names
        request = CreateTopicsRequest(topics=creatable_topics(wanted), timeout_ms=_CREATION_TIMEOUT_MS)
        # The controller authorizes the client, not this broker.
        as_client = context._replace(api_version=_CREATE_VERSION, api_name="CreateTopics")
        creation = self._tasks.start(self._gateway.forward(request, as_client))
        creation.add_done_callback(partial(self._on_done, names, retry_ms))

    def failures(self, names: Iterable[str]) -> Mapping[str, str]:
        """Why topics could not be created lately, by name."""
        now_ms = self._clock.monotonic_ms()
        known = ((name, self._failures.get(name)) for name in names)
        return {
            name: failure.reason
            for name, failure in known
            if failure is not None and now_ms < failure.until_ms
        }

    async def stop(self) -> None:
        await self._tasks.stop()

    def _on_done(self, names: set[str], retry_ms: int, creation: asyncio.Task[Message]) -> None:
        self._in_creation -= names
        if creation.cancelled():
            return
        error = creation.exception()
        if error is not None:
            if not isinstance(error, KafkaError):
                logger.error("Creating internal topics of a streams group failed", exc_info=error)
            failed = dict.fromkeys(names, str(error))
        else:
            response = creation.result()
            assert isinstance(response, CreateTopicsResponse)
            failed = {
                topic.name: topic.error_message or ErrorCode(topic.error_code).name
                for topic in response.topics
                if topic.error_code not in _DONE
            }
        until_ms = self._clock.monotonic_ms() + retry_ms
        for name, reason in failed.items():
            logger.warning("Could not create internal topic %s of a streams group: %s", name, reason)
            self._failures.pop(name, None)
            self._failures[name] = _Failure(reason, until_ms)
        for name in names - failed.keys():
            self._failures.pop(name, None)
        while len(self._failures) > MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
