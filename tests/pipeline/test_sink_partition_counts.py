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


def test_a_topic_is_created_by_asking_and_the_answer_is_kept_for_a_moment(client: ClientProperties) -> None:
    assert partition_count(client, "made-by-the-sink") == 1
    elsewhere = ClientProperties("127.0.0.1:1", api_timeout_ms=1)
    partition_counts._cache["127.0.0.1:1", "made-by-the-sink"] = partition_counts._known[
        client.bootstrap, "made-by-the-sink"
    ]
    assert partition_count(elsewhere, "made-by-the-sink") == 1, "nobody was asked: nobody is there"


def test_a_topic_that_is_not_created_is_an_error_soon(
    ruslo_broker_factory: type[EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_counts, "_CREATION_S", 0.3)
    broker = ruslo_broker_factory({"auto.create.topics.enable": "false"})
    with pytest.raises(KafkaError) as raised:
        partition_count(ClientProperties(broker.bootstrap), "absent")
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "`ruslo topic create absent` makes it" in raised.value.__notes__[0]


def test_a_cluster_that_stays_away_is_an_error(client: ClientProperties) -> None:
    with pytest.raises(KafkaError, match=r"cannot connect to 127\.0\.0\.1:1"):
        partition_count(ClientProperties("127.0.0.1:1", api_timeout_ms=300), "any")
