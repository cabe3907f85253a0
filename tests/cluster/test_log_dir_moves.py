"""Replicas move between log directories under load and kill -9: no record is lost or doubled."""

from __future__ import annotations

import random
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.topics import TopicPartition
from tests.cluster.test_kill9 import PARTITIONS, TOPIC, Load, wait_for_acks
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import by_partition, read_records
from tests.support.clients.log_dir_moves import begin_moves, wait_until_moved

MOVES = 8


def test_moves_under_load_and_kill_9(tmp_path: Path) -> None:
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
        for number in range(MOVES):
            wait_for_acks(load, source.randrange(1, 1000), node)
            target = directories[number % 2]
            begin_moves(node.bootstrap, node.node_id, partitions, target)
            if number % 2:
                wait_for_acks(load, source.choice([1, 30, 300]), node)
                node.kill()
                node.launch()
            wait_until_moved(node.bootstrap, node.node_id, partitions, target)
        wait_for_acks(load, 100, node)
        load.finish()

        assert load.failures == []
        read = by_partition(read_records(node.bootstrap, TOPIC, PARTITIONS, sum(load.sent)))
        for partition in range(PARTITIONS):
            sent = [f"{partition}:{each}".encode() for each in range(load.sent[partition])]
            assert [message.value() for message in read[partition]] == sent
            offsets = {each: message.offset() for each, message in enumerate(read[partition])}
            assert load.acked[partition] == offsets
    finally:
        node.kill()
