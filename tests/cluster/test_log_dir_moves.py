"""Replicas move between log directories under load and kill -9: no record is lost or doubled.

``make soak-moves MOVES=200`` makes more moves. A move that is abandoned does not arrive, so the test fails.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.client.admin.admin import Admin
from ruslo.model.topics import TopicPartition
from tests.cluster.test_kill9 import PARTITIONS, TOPIC, Load, wait_for_acks
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import by_partition, read_records
from tests.support.clients.log_dir_moves import begin_moves, wait_until_moved

MOVES = int(os.environ.get("RUSLO_MOVES", "8"))
KEPT_RECORDS = 20
DELETION_INTERVAL = 4
"""Moves between two deletions: logs that are long take long to copy."""


def delete_records(bootstrap: str, load: Load, starts: list[int]) -> None:
    """Move the log starts past most records, also of those that are being copied."""
    before = {
        TopicPartition(TOPIC, partition): max(acked) - KEPT_RECORDS
        for partition, acked in enumerate(map(dict.copy, load.acked))
        if len(acked) > KEPT_RECORDS
    }

    async def delete() -> dict[TopicPartition, int]:
        async with Admin(bootstrap) as admin:
            return await admin.topics.delete_records(before)

    for tp, start in asyncio.run(delete()).items():
        starts[tp.partition] = start


@pytest.mark.parametrize("deletes", [False, True], ids=["kept", "deleted"])
def test_moves_under_load_and_kill_9(tmp_path: Path, deletes: bool) -> None:
    source = random.Random()
    directories = [tmp_path / "a", tmp_path / "b"]
    properties = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    node = RusloNode(tmp_path, data_dirs=directories, properties=properties).start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])[TOPIC].result(timeout=30)
        partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        load = Load(node.bootstrap)
        load.start()
        starts = [0] * PARTITIONS
        for number in range(MOVES):
            wait_for_acks(load, source.randrange(1, 1000), node)
            target = directories[number % 2]
            begin_moves(node.bootstrap, node.node_id, partitions, target)
            if deletes and number % DELETION_INTERVAL == 0:
                delete_records(node.bootstrap, load, starts)
            if number % 2:
                wait_for_acks(load, source.choice([1, 30, 300]), node)
                node.kill()
                node.launch()
            wait_until_moved(node.bootstrap, node.node_id, partitions, target)
        wait_for_acks(load, 100, node)
        load.finish()

        assert load.failures == []
        left = sum(load.sent) - sum(starts)
        read = by_partition(read_records(node.bootstrap, TOPIC, PARTITIONS, left))
        for partition, start in enumerate(starts):
            sent = [f"{partition}:{each}".encode() for each in range(start, load.sent[partition])]
            assert [message.value() for message in read[partition]] == sent
            offsets = {each: message.offset() for each, message in enumerate(read[partition], start)}
            assert {each: at for each, at in load.acked[partition].items() if each >= start} == offsets
    finally:
        node.kill()
