from __future__ import annotations

import pytest

from ruslo.client.consumer import Consumer
from ruslo.client.librdkafka import ConfigValue, consumer_settings, producer_settings, take_int
from ruslo.client.producer import Producer
from ruslo.model.errors import ConfigError

SERVER: dict[str, ConfigValue] = {"bootstrap.servers": "127.0.0.1:1"}


def test_producers_have_kafka_s_defaults() -> None:
    settings = producer_settings(SERVER)
    assert settings["partitioner"] == "murmur2_random"
    assert settings["enable.idempotence"] is True


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), (-1, True), ("1", False), (0, False)])
def test_idempotence_gives_way_to_weaker_acks(acks: ConfigValue, idempotent: bool) -> None:
    assert producer_settings({**SERVER, "acks": acks})["enable.idempotence"] is idempotent


def test_explicit_idempotence_stays() -> None:
    assert (
        producer_settings({**SERVER, "acks": "1", "enable.idempotence": True})["enable.idempotence"] is True
    )


def test_names_are_translated() -> None:
    settings = producer_settings(
        {**SERVER, "buffer.memory": "33554432", "max.request.size": 2_000_000, "linger.ms": 7}
    )
    assert settings["queue.buffering.max.kbytes"] == 32768
    assert settings["message.max.bytes"] == 2_000_000
    assert settings["linger.ms"] == 7
    assert "buffer.memory" not in settings


def test_consumers_have_kafka_s_defaults_and_names() -> None:
    settings = consumer_settings(
        {
            **SERVER,
            "fetch.max.wait.ms": 100,
            "auto.offset.reset": "none",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor, roundrobin",
        }
    )
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["fetch.wait.max.ms"] == 100
    assert settings["auto.offset.reset"] == "error"
    assert settings["partition.assignment.strategy"] == "range,roundrobin"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "bootstrap.servers is missing"),
        ({**SERVER, "key.serializer": "x"}, "key.serializer belongs to the Java client"),
        ({**SERVER, "sasl.jaas.config": "x"}, "set sasl.username"),
        ({**SERVER, "buffer.memory": "lots"}, "buffer.memory must be a whole number"),
        ({**SERVER, "partitioner.class": "com.example.Mine"}, "names a Java class"),
    ],
)
def test_mistakes(config: dict[str, ConfigValue], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        producer_settings(config)


def test_settings_of_our_own_are_taken_out() -> None:
    settings: dict[str, ConfigValue] = {"max.poll.records": "7"}
    assert take_int(settings, "max.poll.records", 500) == 7
    assert settings == {}
    assert take_int(settings, "max.poll.records", 500) == 500


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_a_setting_that_librdkafka_does_not_know(client: type[Producer] | type[Consumer]) -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        client({**SERVER, "no.such.setting": 1})


def test_without_a_group_there_is_nothing_to_subscribe_or_commit() -> None:
    with Consumer({**SERVER, "log_level": 0}) as consumer:
        with pytest.raises(ConfigError, match=r"set group\.id"):
            consumer.subscribe(["t"])
        with pytest.raises(ConfigError, match=r"set group\.id"):
            consumer.commit()
