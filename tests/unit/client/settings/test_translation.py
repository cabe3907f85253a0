from __future__ import annotations

import logging

import pytest

from ruslo.client.settings import checking
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.tables import CONSUMER, PRODUCER, for_consumers, for_producers
from ruslo.client.settings.translation import consumer_settings, producer_settings
from ruslo.model.errors import ConfigError

SERVER: dict[str, ClientConfigValue] = {"bootstrap.servers": "127.0.0.1:1"}


def produced(**config: ClientConfigValue) -> dict[str, ClientConfigValue]:
    return producer_settings({**SERVER, **{k.replace("_", "."): v for k, v in config.items()}}).librdkafka


def test_producer_defaults_are_kafkas() -> None:
    settings = producer_settings(SERVER)
    assert settings.librdkafka["partitioner"] == "murmur2_random"
    assert settings.librdkafka["enable.idempotence"] is True
    assert settings.librdkafka["acks"] == "all"
    assert settings.librdkafka["max.in.flight.requests.per.connection"] == 5
    assert settings.librdkafka["delivery.timeout.ms"] == 120_000
    assert (settings.buffer_memory, settings.max_block_ms) == (33_554_432, 60_000)


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), (-1, True), ("1", False), (0, False)])
def test_weaker_acks_disable_idempotence(acks: ClientConfigValue, idempotent: bool) -> None:
    assert produced(acks=acks)["enable.idempotence"] is idempotent


@pytest.mark.parametrize("name", ["max.in.flight.requests.per.connection", "retries"])
def test_conflicting_settings_disable_idempotence_unless_it_is_set(name: str) -> None:
    value = 6 if name.startswith("max") else 0
    assert producer_settings({**SERVER, name: value}).librdkafka["enable.idempotence"] is False
    with pytest.raises(
        ConfigError, match=f"Invalid configuration {name}={value}: it conflicts with idempotence"
    ):
        producer_settings({**SERVER, name: value, "enable.idempotence": True})


def test_names_are_translated() -> None:
    settings = producer_settings(
        {**SERVER, "buffer.memory": "1000000", "max.request.size": 2_000_000, "request.timeout.ms": 7000}
    )
    assert settings.buffer_memory == 1_000_000
    assert settings.librdkafka["message.max.bytes"] == 2_000_000
    assert settings.librdkafka["socket.timeout.ms"] == 7000
    assert not {"buffer.memory", "max.request.size", "max.block.ms"} & settings.librdkafka.keys()


def test_only_the_level_of_the_codec_in_use_applies() -> None:
    config: dict[str, ClientConfigValue]
    config = {"compression.type": "zstd", "compression.zstd.level": 19, "compression.gzip.level": 1}
    assert producer_settings({**SERVER, **config}).librdkafka["compression.level"] == 12
    assert "compression.level" not in produced(compression_gzip_level=1)


def test_consumer_defaults_and_names_are_kafkas() -> None:
    settings = consumer_settings(
        {
            **SERVER,
            "group.id": "g",
            "fetch.max.wait.ms": 100,
            "auto.offset.reset": "none",
            "partition.assignment.strategy": [
                "org.apache.kafka.clients.consumer.RangeAssignor",
                "roundrobin",
            ],
        }
    )
    assert settings.librdkafka["isolation.level"] == "read_uncommitted"
    assert settings.librdkafka["fetch.wait.max.ms"] == 100
    assert settings.librdkafka["auto.offset.reset"] == "error"
    assert settings.librdkafka["partition.assignment.strategy"] == "range,roundrobin"
    assert settings.librdkafka["enable.auto.offset.store"] is False
    assert (settings.auto_commit, settings.cooperative, settings.max_poll_records) == (True, False, 500)


def test_no_commits_without_a_group() -> None:
    assert consumer_settings(SERVER).auto_commit is False
    assert consumer_settings({**SERVER, "group.id": "g", "enable.auto.commit": "false"}).auto_commit is False


@pytest.mark.parametrize(
    "config", [{"group.protocol": "CONSUMER"}, {"partition.assignment.strategy": "cooperative-sticky"}]
)
def test_cooperative_rebalances_are_detected(config: dict[str, str]) -> None:
    assert consumer_settings({**SERVER, "group.id": "g", **config}).cooperative


def test_mixed_assignors_become_the_eager_one(caplog: pytest.LogCaptureFixture) -> None:
    checking._warned.clear()
    mix = "RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    settings = consumer_settings({**SERVER, "partition.assignment.strategy": mix})
    assert settings.librdkafka["partition.assignment.strategy"] == "range"
    assert "cannot mix cooperative-sticky" in caplog.text


def test_a_jaas_login() -> None:
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
        """ username="ann" password='it\\'s "me"' tokenauth=false ;"""
    )
    settings = produced(sasl_jaas_config=login, sasl_mechanism="SCRAM-SHA-256")
    assert (settings["sasl.username"], settings["sasl.password"]) == ("ann", 'it\'s "me"')


def test_key_stores_and_trust_stores() -> None:
    pem = produced(ssl_truststore_location="/ca.pem", ssl_keystore_location="/me.pem")
    assert pem["ssl.ca.location"] == "/ca.pem"
    assert pem["ssl.certificate.location"] == pem["ssl.key.location"] == "/me.pem"
    pkcs12 = produced(
        ssl_keystore_location="/me.jks", ssl_keystore_type="PKCS12", ssl_keystore_password="secret"
    )
    assert (pkcs12["ssl.keystore.location"], pkcs12["ssl.keystore.password"]) == ("/me.jks", "secret")
    assert (
        produced(ssl_endpoint_identification_algorithm="")["ssl.endpoint.identification.algorithm"] == "none"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"bootstrap.servers": ""}, "Invalid configuration bootstrap.servers: it is missing"),
        ({"bootstrap.servers": "nowhere"}, "is not HOST:PORT"),
        ({"linger.ms": "soon"}, "Invalid configuration linger.ms=soon: it is not an integer"),
        ({"linger.ms": -1}, "below the minimum 0"),
        ({"acks": "most"}, "Use one of all, -1, 0, 1"),
        ({"acks": 1, "transactional.id": "t"}, "Invalid configuration acks=1: it conflicts with idempotence"),
        ({"enable.idempotence": False, "transactional.id": "t"}, "transactional.id needs idempotence"),
        ({"delivery.timeout.ms": 100}, r"below linger.ms \+ request.timeout.ms \(30005\)"),
        ({"key.serializer": "a.b.C"}, "it exists in Java only. Pass key_serializer="),
        ({"partitioner.class": "com.example.Mine"}, "names a Java class. Pass partitioner="),
        ({"sasl.jaas.config": "Krb5LoginModule required;"}, "the login Krb5LoginModule exists in Java only"),
        ({"sasl.jaas.config": "secret!"}, r"Invalid configuration sasl.jaas.config=\*\*\*"),
        ({"ssl.keystore.location": "/a.jks"}, "cannot read Java key stores"),
        ({"ssl.truststore.location": "/a.p12"}, "PEM files only"),
        ({"max.poll.records": 5}, "a producer has no such setting"),
        ({"transaction.two.phase.commit.enable": True}, "does not support two-phase commit"),
    ],
)
def test_invalid_producer_settings(config: dict[str, ClientConfigValue], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        producer_settings({**SERVER, **config})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"auto.offset.reset": "by_duration:PT1H"}, "librdkafka does not support it"),
        ({"auto.offset.reset": "begin"}, "Use latest, earliest, none\\."),
        ({"auto.offset.reset": "middle"}, "Use latest, earliest, none"),
        ({"group.protocol": "consumer", "session.timeout.ms": 9000}, "the broker decides it"),
        ({"heartbeat.interval.ms": 50_000}, "not below session.timeout.ms"),
        ({"session.timeout.ms": 20_000, "max.poll.interval.ms": 10_000}, "at least session.timeout.ms"),
        ({"partition.assignment.strategy": "StickyAssignor"}, "'StickyAssignor' is not supported"),
        ({"linger.ms": 5}, "a consumer has no such setting"),
        ({"share.acquire.mode": "record_limit"}, "share groups need ShareConsumer"),
    ],
)
def test_invalid_consumer_settings(config: dict[str, ClientConfigValue], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        consumer_settings({**SERVER, "group.id": "g", **config})


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        producer_settings({**SERVER, "linger.ms": "x", "acks": "y"})
    assert "linger.ms=x" in str(caught.value)
    assert "acks=y" in str(caught.value)


def test_a_setting_without_effect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    checking._warned.clear()
    config = {**SERVER, "metrics.num.samples": 3}
    with caplog.at_level(logging.WARNING):
        assert "metrics.num.samples" not in producer_settings(config).librdkafka
        producer_settings(config)
    assert [record.message for record in caplog.records] == [
        "metrics.num.samples has no effect: Java's metrics do not exist here."
    ]


def test_default_values_are_neither_rejected_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    checking._warned.clear()
    producer_settings({**SERVER, "transaction.two.phase.commit.enable": "false", "metrics.num.samples": 2})
    assert caplog.text == ""


def test_settings_are_split_by_kind_of_client() -> None:
    any_client = {"bootstrap.servers": "a:1", "linger.ms": 1, "group.id": "g", "statistics.interval.ms": 5}
    assert for_producers(any_client).keys() == any_client.keys() - {"group.id"}
    assert for_consumers(any_client).keys() == any_client.keys() - {"linger.ms"}


def test_every_setting_of_kafka_is_included() -> None:
    assert (len(PRODUCER), len(CONSUMER)) == (113, 115)
