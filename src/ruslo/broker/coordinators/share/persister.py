"""The requests of this broker to the share coordinators, on this node and on others.

The group coordinator initializes and deletes the states of share-partitions; the leaders of their partitions
read and write them. A request may name many share-partitions: each coordinator gets those that it stores. A
share-partition whose coordinator is moving, loading or unreachable is requested again for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ruslo.broker.coordinators.runtime.internal_topic import InternalTopic
from ruslo.broker.coordinators.share.coordinator import ShareCoordinator
from ruslo.broker.metadata.broker_links import BrokerLinks
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.machines.share_coordinator.responses import (
    ShareRequest,
    failure_of,
    merged,
    response_type,
    results_by_key,
    split,
)
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import SHARE_STATE_TOPIC

Results: TypeAlias = Mapping[ShareKey, Any]
"""The partition results of the API's response: an error code and message, and what a read returns."""

BACKOFF_MS = 50
BACKOFF_MAX_MS = 1_000
RETRIES = 16
"""They take about 12 seconds: the time of a failover with a session timeout."""

CHUNK = 100
"""The share-partitions of one request; a coordinator handles them in one step of its event loop."""

_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        # The coordinator's node may not have the metadata of a new topic yet.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NO_NODE = -1


@dataclass(eq=False)
class SharePersister:
    _coordinator: ShareCoordinator
    """The share coordinator of this node."""
    _topic: InternalTopic
    _metadata: MetadataLoader
    _links: BrokerLinks
    _node_id: int

    async def request(self, request: ShareRequest) -> Results:
        """The result for each share-partition that the request names. Errors are results as well."""
        parts = dict(split(request))
        results: dict[ShareKey, Any] = {}
        backoff_ms = BACKOFF_MS
        for attempt in range(RETRIES + 1):
            if attempt:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
            if SHARE_STATE_TOPIC not in self._metadata.image.topics.by_name:
                await self._topic.create()
            results |= await self._request_once(parts)
            parts = {key: part for key, part in parts.items() if results[key].error_code in _RETRIABLE}
            if not parts:
                break
        return results

    async def _request_once(self, parts: Mapping[ShareKey, ShareRequest]) -> dict[ShareKey, Any]:
        by_node: dict[int, list[ShareRequest]] = {}
        for key, part in parts.items():
            by_node.setdefault(self.node_of(key), []).append(part)
        chunks = [
            (node, node_parts[at : at + CHUNK])
            for node, node_parts in by_node.items()
            for at in range(0, len(node_parts), CHUNK)
        ]
        results: dict[ShareKey, Any] = {}
        for responses in await asyncio.gather(*(self._send(node, chunk) for node, chunk in chunks)):
            results |= responses
        return results

    def node_of(self, key: ShareKey) -> int:
        """The node of the share coordinator of a share-partition; -1 if there is none."""
        topic = self._metadata.image.topics.by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            return _NO_NODE
        return topic.partitions[self._coordinator.partition_of(str(key))].leader

    async def _send(self, node: int, parts: list[ShareRequest]) -> dict[ShareKey, Any]:
        request = merged(parts)
        try:
            if node == self._node_id:
                response = self._coordinator.submit(request, type(request).MAX_VERSION)
                if isinstance(response, asyncio.Future):
                    response = await response
            elif node == _NO_NODE:
                problem = f"{SHARE_STATE_TOPIC} does not exist, or its partition has no leader"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, problem)
            else:
                response = await self._links.request(node, request, response_type(request))
        except KafkaError as error:
            # It is unknown whether the request took effect: repeating it is harmless.
            problem = f"The share coordinator on node {node} was not reached: {error}"
            response = failure_of(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, problem)
        return results_by_key(request.group_id, response)
