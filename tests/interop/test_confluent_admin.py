"""librdkafka's admin client through confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, new_reader, produce_all


def error_of(futures: Mapping[str, Future[object]]) -> int:
    """The error code of the only item of an admin call."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as caught:
        future.result(timeout=30)
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    return error.code()


def config_of(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(timeout=30)
    return entries


def test_a_topic_is_created_described_and_deleted(admin: AdminClient) -> None:
    name = "the-life-of-a-topic"
    expected = NewTopic(name, num_partitions=3, replication_factor=1, config={"retention.ms": "3600000"})
    admin.create_topics([expected])[name].result(timeout=30)
    assert sorted(admin.list_topics(timeout=60).topics[name].partitions) == [0, 1, 2]

    admin.create_partitions([NewPartitions(name, 5)])[name].result(timeout=30)
    described = admin.describe_topics(TopicCollection([name]))[name].result(timeout=30)
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3, 4]
    assert all(partition.leader.id == partition.replicas[0].id for partition in described.partitions)
    assert not described.is_internal

    admin.delete_topics([name], operation_timeout=30)[name].result(timeout=30)
    assert name not in admin.list_topics(timeout=60).topics


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    name = "only-validated"
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(timeout=30)

    assert name not in admin.list_topics(timeout=60).topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("three-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("bad-key", 1, 1, config={"no.such.key": "1"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else str(value),
)
def test_topics_that_cannot_be_created(admin: AdminClient, topic: NewTopic, code: int) -> None:
    assert error_of(admin.create_topics([topic])) == code


def test_a_topic_is_created_once(admin: AdminClient, new_topic: TopicMaker) -> None:
    assert error_of(admin.create_topics([NewTopic(new_topic(), 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS


def test_missing_topics(admin: AdminClient) -> None:
    assert error_of(admin.delete_topics(["nowhere"])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert (
        error_of(admin.create_partitions([NewPartitions("nowhere", 4)])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_partitions_cannot_be_removed(admin: AdminClient, new_topic: TopicMaker) -> None:
    name = new_topic(partitions=3)

    assert error_of(admin.create_partitions([NewPartitions(name, 2)])) == KafkaError.INVALID_PARTITIONS


def test_topic_configs(admin: AdminClient, new_topic: TopicMaker) -> None:
    name = new_topic(config={"retention.ms": "1000000"})
    resource = ConfigResource(ResourceType.TOPIC, name)
    before = config_of(admin, resource)
    assert before["retention.ms"].value == "1000000"
    assert not before["retention.ms"].is_default
    assert before["segment.bytes"].is_default
    assert before["segment.bytes"].value == "1073741824"

    changes = [
        ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    changed = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    admin.incremental_alter_configs([changed])[changed].result(timeout=30)
    after = config_of(admin, resource)
    assert after["retention.ms"].value == "2000000"
    assert after["cleanup.policy"].value == "delete,compact"

    back = [ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)]
    undone = ConfigResource(ResourceType.TOPIC, name, incremental_configs=back)
    admin.incremental_alter_configs([undone])[undone].result(timeout=30)
    assert config_of(admin, resource)["retention.ms"].value == "604800000"


def test_broker_configs(admin: AdminClient) -> None:
    broker = ConfigResource(ResourceType.BROKER, "1")
    assert config_of(admin, broker)["node.id"].value == "1"
    assert config_of(admin, broker)["node.id"].is_read_only

    change = [ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)]
    changed = ConfigResource(ResourceType.BROKER, "1", incremental_configs=change)
    admin.incremental_alter_configs([changed])[changed].result(timeout=30)
    deadline = time.monotonic() + 60
    while config_of(admin, broker)["log.cleaner.threads"].value != "2":
        assert time.monotonic() < deadline, "the broker did not apply the new value"
        time.sleep(0.05)


def test_an_invalid_config_value_is_rejected(admin: AdminClient, new_topic: TopicMaker) -> None:
    entry = ConfigEntry("min.insync.replicas", "many", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, new_topic(), incremental_configs=[entry])
    with pytest.raises(KafkaException) as caught:
        admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_cluster_description(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(timeout=30)

    assert len(cluster.cluster_id) == 22
    assert [node.id for node in cluster.nodes] == [1]
    assert cluster.controller.id == 1


def test_special_offsets(admin: AdminClient, bootstrap: str, new_topic: TopicMaker) -> None:
    name = new_topic()
    now_ms = int(time.time() * 1000)
    timestamps_ms = [now_ms - 5000, now_ms - 1000, now_ms - 3000]
    produce_all(bootstrap, name, [Sent(b"x", timestamp_ms=timestamp_ms) for timestamp_ms in timestamps_ms])
    partition = TopicPartition(name, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        result = admin.list_offsets({partition: spec})[partition].result(timeout=30)
        return result.offset, result.timestamp

    assert offset(OffsetSpec.earliest())[0] == 0
    assert offset(OffsetSpec.latest())[0] == 3
    assert offset(OffsetSpec.max_timestamp()) == (1, now_ms - 1000)
    assert offset(OffsetSpec.for_timestamp(now_ms - 4000)) == (1, now_ms - 1000)


def test_deleted_records_stay_deleted(admin: AdminClient, bootstrap: str, new_topic: TopicMaker) -> None:
    name = new_topic()
    produce_all(bootstrap, name, [Sent(b"%d" % number) for number in range(20)])
    requested = TopicPartition(name, 0, 12)

    assert admin.delete_records([requested])[requested].result(timeout=30).low_watermark == 12

    reader = new_reader(bootstrap)
    try:
        assert reader.get_watermark_offsets(TopicPartition(name, 0), timeout=60) == (12, 20)
    finally:
        reader.close()
