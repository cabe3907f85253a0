from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.producer import Producer
from ruslo.pipeline.dead_letters.counts import DeadLetterCounts, DeadLetterTopic
from ruslo.testing import EmbeddedBroker

TOPIC = "counted-dead-letters"
THREADS = 4


def test_concurrent_refreshes_count_each_dead_letter_once(ruslo_broker: EmbeddedBroker) -> None:
    """The refresh thread and the end of a run may refresh at the same time."""
    bootstrap = ruslo_broker.bootstrap

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            await admin.topics.create([NewTopic(TOPIC, partitions=1)])

    asyncio.run(create())
    topic = DeadLetterTopic(bootstrap, TOPIC)
    counts = DeadLetterCounts([topic])
    counts.refresh()
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.send_many(TOPIC, [b"undecodable"] * 10)
    with ThreadPoolExecutor(THREADS) as pool:
        for refresh in [pool.submit(counts.refresh) for _ in range(THREADS)]:
            refresh.result()
    assert counts.count(topic) == 10
