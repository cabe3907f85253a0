from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.producer import Producer
from ruslo.pipeline.runner.dead_letters import DeadLetterCounts
from ruslo.testing import EmbeddedBroker

TOPIC = "letters-counted"
LOOKS = 4


def test_letters_are_counted_once_by_those_who_look_together(ruslo_broker: EmbeddedBroker) -> None:
    """As the watcher and the end of a run do."""
    bootstrap = ruslo_broker.bootstrap

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            await admin.topics.create([NewTopic(TOPIC, partitions=1)])

    asyncio.run(create())
    counts = DeadLetterCounts([(bootstrap, TOPIC)])
    counts.look()
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.send_many(TOPIC, [b"letter"] * 10)
    with ThreadPoolExecutor(LOOKS) as lookers:
        for looking in [lookers.submit(counts.look) for _ in range(LOOKS)]:
            looking.result()
    assert counts.count(bootstrap, TOPIC) == 10
