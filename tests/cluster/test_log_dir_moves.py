"""Replicas move between log directories under load and kill -9: no record is lost or doubled.

``make soak-moves MOVES=200`` makes more moves. A move that is abandoned does not arrive, so the test fails.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.topics import TopicPartition
from tests.cluster.test_kill9 import PARTITIONS, TOPIC, Load, wait_for_acks
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import by_partition, read_records
from tests.support.clients.log_dir_moves import begin_moves, wait_until_moved

MOVES = int(os.environ.get("RUSLO_MOVES", "8"))
KEPT_RECORDS = 500


class Deletion(threading.Thread):
    """DeleteRecords in a loop: the log starts move while logs are copied."""

    def __init__(self, admin: AdminClient, load: Load) -> None:
        super().__init__(name="deletion")
        self.starts = [0] * PARTITIONS
        self._admin = admin
        self._load = load
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(0.01):
            wanted = [
                Position(TOPIC, partition, max(acked) - KEPT_RECORDS)
                for partition, acked in enumerate(map(dict.copy, self._load.acked))
                if len(acked) > KEPT_RECORDS
            ]
            if not wanted:
                continue
            for position, future in self._admin.delete_records(wanted, request_timeout=60).items():
                if future.exception(timeout=90) is None:
                    self.starts[position.partition] = future.result().low_watermark

    def finish(self) -> None:
        self._stopping.set()
        self.join(120)


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
        deletion = Deletion(admin, load)
        if deletes:
            deletion.start()
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
        if deletes:
            deletion.finish()
        load.finish()

        assert load.failures == []
        left = sum(load.sent) - sum(deletion.starts)
        read = by_partition(read_records(node.bootstrap, TOPIC, PARTITIONS, left))
        for partition, start in enumerate(deletion.starts):
            sent = [f"{partition}:{each}".encode() for each in range(start, load.sent[partition])]
            assert [message.value() for message in read[partition]] == sent
            offsets = {each: message.offset() for each, message in enumerate(read[partition], start)}
            assert {each: at for each, at in load.acked[partition].items() if each >= start} == offsets
    finally:
        node.kill()
