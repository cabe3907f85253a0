"""Two drivers of one query: the later one fences the earlier one, and no record is written twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.admin.topics import NewTopic
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.transaction import CheckpointBehind
from ruslo.testing.embedded import EmbeddedBroker
from tests.pipeline.zombie_commit import BATCH_ID, commit

BATCHES = 300


@pytest.fixture
def topic(ruslo_broker: EmbeddedBroker) -> str:
    name = f"zombie-{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        async with Admin(ruslo_broker.bootstrap) as admin:
            await admin.topics.create([NewTopic(name, partitions=1)])

    asyncio.run(create())
    return name


def keys_of(bootstrap: str, topic: str) -> list[bytes | None]:
    from ruslo.client.librdkafka.consumer import START, ConsumedRecord, Consumer

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    with consumer:
        consumer.assign({TopicPartition(topic, 0): START})
        keys: list[bytes | None] = []
        while True:
            for event in consumer.poll_events(1.0):
                if not isinstance(event, ConsumedRecord):
                    return keys
                keys.append(event.key)


async def wait_for_records(bootstrap: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with Admin(bootstrap) as admin:
        while (await admin.offsets.find({tp: Spec.LATEST}))[tp].offset == 0:
            pass


def test_a_driver_that_resumes_in_its_transaction_is_fenced(
    ruslo_broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    bootstrap = ruslo_broker.bootstrap
    job = [sys.executable, "-m", "tests.pipeline.zombie_commit", bootstrap, topic]
    zombie = subprocess.Popen(
        [*job, str(tmp_path / "zombie"), str(BATCHES)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        asyncio.run(asyncio.wait_for(wait_for_records(bootstrap, topic), 60))
        os.kill(zombie.pid, signal.SIGSTOP)
        assert commit(bootstrap, topic, str(tmp_path / "successor"), 10)
        os.kill(zombie.pid, signal.SIGCONT)
        _, errors = zombie.communicate(timeout=60)
    finally:
        zombie.kill()
        zombie.wait()
    assert zombie.returncode != 0
    assert "another producer with this transactional id has started" in errors
    assert keys_of(bootstrap, topic) == [b"%d" % number for number in range(10)]


def test_a_driver_that_resumes_before_its_transaction_writes_nothing(
    ruslo_broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    bootstrap = ruslo_broker.bootstrap
    assert commit(bootstrap, topic, str(tmp_path), 10)
    assert not commit(bootstrap, topic, str(tmp_path), 10)
    with pytest.raises(CheckpointBehind, match=f"write batch {BATCH_ID - 1}: batch {BATCH_ID} is already"):
        commit(bootstrap, topic, str(tmp_path), 10, batch_id=BATCH_ID - 1)
    assert keys_of(bootstrap, topic) == [b"%d" % number for number in range(10)]
    assert commit(bootstrap, topic, str(tmp_path), 2, batch_id=BATCH_ID + 1)
    assert len(keys_of(bootstrap, topic)) == 12
