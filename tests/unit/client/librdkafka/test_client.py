from __future__ import annotations

import pytest
from confluent_kafka import KafkaError as Theirs

from ruslo.client.errors import ClientUnusable, ProducerFenced
from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.client.librdkafka.producer import Producer
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

NOWHERE: dict[str, ClientConfigValue] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_an_unknown_setting(client: type[Producer] | type[Consumer]) -> None:
    with pytest.raises(ConfigError, match=r"nor librdkafka has such a setting"):
        client({**NOWHERE, "no.such.setting": 1})


@pytest.mark.parametrize(
    ("client", "wrong", "right"),
    [
        (Producer, "buffer.memmory", "buffer.memory"),
        (Producer, "max.in.flight.requests", "max.in.flight.requests.per.connection"),
        (Consumer, "auto.ofset.reset", "auto.offset.reset"),
    ],
)
def test_misspelled_setting_suggests_the_nearest_name(
    client: type[Producer] | type[Consumer], wrong: str, right: str
) -> None:
    with pytest.raises(ConfigError, match=rf"Did you mean {right}\?"):
        client({**NOWHERE, wrong: 1})


def test_a_value_that_librdkafka_rejects() -> None:
    with pytest.raises(ConfigError, match=r"librdkafka rejects these settings: .*statistics.interval.ms"):
        Producer({**NOWHERE, "statistics.interval.ms": "never"})


@pytest.mark.parametrize(
    ("theirs", "ours", "kind"),
    [
        (Theirs._MSG_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, RequestTimedOut),
        (Theirs._FENCED, ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (Theirs._ALL_BROKERS_DOWN, ErrorCode.NETWORK_EXCEPTION, KafkaError),
        (Theirs._UNKNOWN_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, KafkaError),
        (
            Theirs.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            KafkaError,
        ),
        (Theirs._PURGE_QUEUE, ErrorCode.OPERATION_NOT_ATTEMPTED, KafkaError),
        (Theirs._BAD_MSG, ErrorCode.UNKNOWN_SERVER_ERROR, KafkaError),
    ],
)
def test_errors(theirs: int, ours: ErrorCode, kind: type[KafkaError]) -> None:
    error = as_kafka_error(Theirs(theirs))
    assert error.code == ours
    assert type(error) is kind


def test_a_closed_client_is_unusable() -> None:
    producer = Producer(NOWHERE)
    producer.close()
    producer.close()
    with pytest.raises(ClientUnusable, match="the producer is closed"):
        producer.send("t", b"x")
    consumer = Consumer({**NOWHERE, "group.id": "g"})
    consumer.close()
    consumer.close()
    with pytest.raises(ClientUnusable, match="the consumer is closed"):
        consumer.poll(0)
    assert list(consumer) == []


def test_subscribe_and_commit_need_a_group() -> None:
    with Consumer(NOWHERE) as consumer:
        with pytest.raises(ConfigError, match=r"set group\.id"):
            consumer.subscribe(["t"])
        with pytest.raises(ConfigError, match=r"set group\.id"):
            consumer.commit()


def test_subscribe_needs_a_list() -> None:
    with (
        Consumer({**NOWHERE, "group.id": "g"}) as consumer,
        pytest.raises(ConfigError, match=r"write \['orders'\]"),
    ):
        consumer.subscribe("orders")
