"""Apache Kafka instead of a shard on a bench: every record it writes and every response can be compared."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record
from tests.support.brokers.kafka import ApacheKafka
from tests.support.clients.raw_client import frame, request_bytes
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, Logged, Topics

PARTITIONS = {"orders": 4, "parcels": 2}
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
SETTINGS = GroupSettings(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)


class KafkaTopics(Topics):
    """The topics with the ids that Apache Kafka assigned."""

    def __init__(self, ids: dict[str, Uuid]) -> None:
        super().__init__({})
        self._by_name = {name: TopicInfo(name, ids[name], count) for name, count in PARTITIONS.items()}
        self._by_id = {topic.id: topic for topic in self._by_name.values()}


class KafkaBench(GroupBench):
    """Apache Kafka instead of the shard, and its files instead of the log."""

    def __init__(
        self,
        node: ApacheKafka,
        topics: KafkaTopics | None,
        connection: socket.socket,
        group_id: str | None = None,
    ) -> None:
        """Only records of ``group_id`` are read: members of earlier scenarios may expire in between."""
        super().__init__(SETTINGS, topics)
        self._node = node
        self._group_id = group_id
        self._connection = connection
        self._correlation_id = 0
        self._read_log()

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        if version is None:
            version = API_BY_KEY[request.API_KEY].max_version
        self._correlation_id += 1
        token = self._correlation_id
        self._connection.sendall(frame(request_bytes(request, version, token, client)))
        (size,) = struct.unpack(">i", self._receive(4))
        body = self._receive(size)
        api = API_BY_KEY[request.API_KEY]
        start = 5 if version >= api.flexible_from else 4
        self.responses[token] = api.response.from_bytes(body[start:], version)
        self._read_log()
        return token

    def write(self, ours: GroupBench) -> None:
        """Append the records that our machine has written to Kafka's log; it loads them when it restarts."""
        batch = build_batch(
            [Record(offset, ours.wall_ms, each.key, each.value) for offset, each in enumerate(ours.log)],
            base_sequence=0,
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name="__consumer_offsets",
                    partition_data=[PartitionProduceData(index=0, records=batch)],
                )
            ],
        )
        # Only this client may write to internal topics.
        token = self.send(request, 11, "__admin_client")
        (topic,) = self.response(token, ProduceResponse).responses
        assert topic.partition_responses[0].error_code == ErrorCode.NONE

    def is_parked(self, token: Hashable) -> bool:
        return False

    def advance(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1_000)
        self._read_log()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def _read_log(self) -> None:
        self.log = []
        for file in sorted(self._node.data_dirs[0].glob("__consumer_offsets-0/*.log")):
            data = file.read_bytes()
            for position, header in iter_batches(data):
                batch = data[position : position + header.size]
                for record in read_records(batch):
                    assert record.key is not None
                    if self._group_id in (None, _group_of(record.key)):
                        self.log.append(Logged(record.key, record.value))


def _group_of(key: bytes) -> str:
    decoded = GROUP_RECORDS.decode_key(key)
    return str(getattr(decoded, "group_id", None) or getattr(decoded, "group", ""))


def prepared(node: ApacheKafka) -> KafkaTopics:
    """Create the topics and wait for the coordinator."""
    with socket.create_connection(("127.0.0.1", node.port)) as connection:
        bench = KafkaBench(node, None, connection)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                for name, count in PARTITIONS.items()
            ],
            timeout_ms=10_000,
        )
        created = bench.call(request, CreateTopicsResponse)
        assert {topic.error_code for topic in created.topics} == {ErrorCode.NONE}
        wait_for_coordinator(bench)
        return KafkaTopics({topic.name: topic.topic_id for topic in created.topics})


def wait_for_coordinator(bench: KafkaBench) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while bench.call(find, FindCoordinatorResponse).coordinators[0].error_code != ErrorCode.NONE:
        time.sleep(0.1)
    # The coordinator may still be loading. Leaving an unknown group is an error.
    probe = Consumer(Transcript(bench, "probe"), "x", "orders")
    while probe.leave().error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        time.sleep(0.1)


def check_that_kafka_loads(
    directory: Path,
    properties: dict[str, str],
    settings: GroupSettings,
    write_groups: Callable[[GroupBench], list[str]],
    describe: Callable[[GroupBench, list[str]], Sequence[Any]],
) -> None:
    """Kafka loads the records that our shard writes for some groups, and describes the groups as we do."""
    with ApacheKafka(directory, properties=properties) as node:
        topics = prepared(node)
        ours = GroupBench(settings, topics)
        groups = write_groups(ours)
        with socket.create_connection(("127.0.0.1", node.port)) as connection:
            KafkaBench(node, topics, connection).write(ours)
    with (
        ApacheKafka(directory, properties=properties, cluster_id=node.cluster_id) as node,
        socket.create_connection(("127.0.0.1", node.port)) as connection,
    ):
        theirs = KafkaBench(node, topics, connection)
        wait_for_coordinator(theirs)
        expected = describe(ours, groups)
        assert [group.error_code for group in expected] == [ErrorCode.NONE] * len(groups)
        assert describe(theirs, groups) == expected
