"""The partition counts of topics, cached for a few seconds by each Python worker."""

from __future__ import annotations

import asyncio
import time

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.pipeline.client_properties import ClientProperties, reachable_cluster

_MAX_AGE_S = 10.0
_TOPIC_CREATION_TIMEOUT_S = 5.0
_RETRY_BACKOFF_S = 0.2
_cache: dict[tuple[str, str], tuple[int, float]] = {}
"""Count and expiry time by bootstrap servers and topic. Spark reuses workers for later batches."""


def partition_count(client: ClientProperties, topic: str) -> int:
    """The cached count, or a Metadata request, which may create the topic, as in Kafka."""
    key = client.bootstrap, topic
    count, expires_at_s = _cache.get(key, (0, 0.0))
    if time.monotonic() >= expires_at_s:
        count = asyncio.run(_fetch(client, topic))
        _cache[key] = count, time.monotonic() + _MAX_AGE_S
    return count


async def _fetch(client: ClientProperties, topic: str) -> int:
    async with reachable_cluster(client) as cluster:

        async def attempt() -> int:
            metadata = await cluster.metadata([topic], allow_auto_topic_creation=True)
            return len(metadata.topic(topic).partitions)

        deadline_s = time.monotonic() + _TOPIC_CREATION_TIMEOUT_S
        while True:
            try:
                return await cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))
            except KafkaError as error:
                # With auto.create.topics.enable the first request still reports an unknown topic.
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or time.monotonic() > deadline_s:
                    error.add_note(f"the sink cannot write to it: run `ruslo topic create {topic}`")
                    raise
            await asyncio.sleep(_RETRY_BACKOFF_S)
