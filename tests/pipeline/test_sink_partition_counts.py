from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.pipeline import partition_counts
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.partition_counts import partition_count
from ruslo.testing.embedded import EmbeddedBroker


@pytest.fixture
def client(ruslo_broker: EmbeddedBroker) -> ClientProperties:
    return ClientProperties(ruslo_broker.bootstrap)


def test_a_missing_topic_is_created_and_its_count_is_cached(client: ClientProperties) -> None:
    assert partition_count(client, "made-by-the-sink") == 1
    elsewhere = ClientProperties("127.0.0.1:1", api_timeout_ms=1)
    partition_counts._cache["127.0.0.1:1", "made-by-the-sink"] = partition_counts._cache[
        client.bootstrap, "made-by-the-sink"
    ]
    assert partition_count(elsewhere, "made-by-the-sink") == 1, "no request was sent"


def test_a_missing_topic_is_an_error_without_auto_creation(
    ruslo_broker_factory: type[EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_counts, "_TOPIC_CREATION_TIMEOUT_S", 0.3)
    broker = ruslo_broker_factory({"auto.create.topics.enable": "false"})
    with pytest.raises(KafkaError) as raised:
        partition_count(ClientProperties(broker.bootstrap), "absent")
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "run `ruslo topic create absent`" in raised.value.__notes__[0]


def test_an_unreachable_cluster_is_an_error(client: ClientProperties) -> None:
    with pytest.raises(KafkaError, match=r"cannot connect to 127\.0\.0\.1:1"):
        partition_count(ClientProperties("127.0.0.1:1", api_timeout_ms=300), "any")
