"""Apache Kafka completes a move between log directories that Ruslo began, and the reverse."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.topics import TopicPartition
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import Sent, produce_all, read_records
from tests.support.clients.log_dir_moves import begin_moves, limit_rate, wait_until_moved

TP = TopicPartition("t", 0)
VALUES = [b"%d" % number * 100 for number in range(5000)]


@pytest.mark.parametrize(("first", "then"), [(RusloNode, ApacheKafka), (ApacheKafka, RusloNode)])
def test_the_other_system_completes_a_move(tmp_path: Path, first: type[Node], then: type[Node]) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    properties = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    node = first(tmp_path / "first", data_dirs=directories, properties=properties).start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=30)
        records = [Sent(value, partition=0) for value in VALUES]
        produce_all(node.bootstrap, "t", records, {"batch.num.messages": 100})
        (source,) = [each for each in directories if (each / "t-0").exists()]
        (target,) = [each for each in directories if each != source]
        limit_rate(node.bootstrap, node.node_id, 1)
        begin_moves(node.bootstrap, node.node_id, [TP], target)
        deadline = time.monotonic() + 60
        while not any(each.stat().st_size for each in target.glob("t-0.*-future/*.log")):
            assert time.monotonic() < deadline, node.log_tail()
            time.sleep(0.05)
        node.kill()
        node = then(
            tmp_path / "then",
            data_dirs=directories,
            properties=properties,
            cluster_id=node.cluster_id,
            port=node.port,
            controller_port=node.controller_port,
        ).start()
        limit_rate(node.bootstrap, node.node_id, 1_000_000_000)
        wait_until_moved(node.bootstrap, node.node_id, [TP], target)
        read = [message.value() for message in read_records(node.bootstrap, "t", 1, len(VALUES))]
        assert read == VALUES
        produce_all(node.bootstrap, "t", records[:1], {})
        assert len(read_records(node.bootstrap, "t", 1, len(VALUES) + 1)) == len(VALUES) + 1
    finally:
        node.kill()
