"""How many partitions topics have, remembered for a moment by each Python worker."""

from __future__ import annotations

import asyncio
import time

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.sink.patience import reached_cluster

_FRESH_FOR_S = 10.0
_CREATION_S = 5.0
_PAUSE_S = 0.2
_known: dict[tuple[str, str], tuple[int, float]] = {}
"""By bootstrap and topic the count and until when it is believed. Workers live on from batch to batch."""


def partition_count(client: ClientProperties, topic: str) -> int:
    """Ask the cluster, unless it was asked just before; a topic may be created by the asking, as in Kafka."""
    key = client.bootstrap, topic
    count, fresh_until = _known.get(key, (0, 0.0))
    if time.monotonic() >= fresh_until:
        count = asyncio.run(_ask(client, topic))
        _known[key] = count, time.monotonic() + _FRESH_FOR_S
    return count


async def _ask(client: ClientProperties, topic: str) -> int:
    async with reached_cluster(client) as cluster:

        async def attempt() -> int:
            metadata = await cluster.metadata([topic], allow_auto_topic_creation=True)
            return len(metadata.topic(topic).partitions)

        give_up_s = time.monotonic() + _CREATION_S
        while True:
            try:
                return await cluster.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))
            except KafkaError as error:
                # The first to ask for a topic that brokers create by themselves is told that there is none.
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or time.monotonic() > give_up_s:
                    error.add_note(f"the sink cannot write to it; `ruslo topic create {topic}` makes it")
                    raise
            await asyncio.sleep(_PAUSE_S)
