from __future__ import annotations

from collections.abc import Mapping

import pytest

from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import InvalidConfig
from ruslo.config.limits import LONG_MAX
from ruslo.config.listeners import HostPort
from ruslo.config.log_config import LogConfig

COMBINED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
OUTSIDE = {
    **COMBINED,
    "listeners": "PLAINTEXT://:9092,OUTSIDE://:9094,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT",
}


def config(**changes: str) -> BrokerConfig:
    """A node with both roles; changed properties have underscores for dots."""
    return BrokerConfig.from_properties(
        {**COMBINED, **{name.replace("_", "."): value for name, value in changes.items()}}
    )


def test_typed_access() -> None:
    node = config(min_cleanable="ignored", broker_rack="r1")
    assert node.int("num.partitions") == 1
    assert node.str("compression.type") == "producer"
    assert node.opt_str("broker.rack") == "r1"
    assert node.opt_str("metadata.log.dir") is None
    assert node.opt_int("log.retention.ms") is None
    assert node.bool("auto.create.topics.enable") is True
    assert node.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert node.list("log.dirs") == ()
    assert node.list("log.dir") == ("/tmp/kafka-logs",)
    with pytest.raises(AssertionError, match="not a boolean"):
        node.bool("num.partitions")
    with pytest.raises(KeyError):
        node.int("no.such.key")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.endpoint.identification.algorithm", "LDAPS"),
        ("listener.name.plaintext.ssl.endpoint.identification.algorithm", "LDAPS"),
        ("sasl.oauthbearer.assertion.file", "/etc/assertion"),
        ("sasl.oauthbearer.assertion.template.file", "/etc/template"),
    ],
)
def test_a_security_setting_that_would_be_ignored_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidConfig) as rejection:
        BrokerConfig.from_properties({**COMBINED, key: value})
    assert [problem.key for problem in rejection.value.problems] in (
        [key],
        [key.removeprefix("listener.name.plaintext.")],
    )


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(InvalidConfig) as rejection:
        BrokerConfig.from_properties({"node.id": "x", "num.partitions": "0"})
    keys = {problem.key for problem in rejection.value.problems}
    assert keys == {"node.id", "num.partitions", "process.roles", "controller.listener.names"}
    text = str(rejection.value)
    assert "Invalid configuration process.roles: it is missing. Add process.roles=broker,controller" in text
    assert "Invalid configuration node.id=x: it is not an integer." in text


def test_roles_and_identity() -> None:
    node = config()
    assert (node.node_id, node.is_broker, node.is_controller) == (1, True, True)
    assert node.int("broker.id") == 1
    only_broker_id = {name: value for name, value in COMBINED.items() if name != "node.id"} | {
        "broker.id": "7"
    }
    assert BrokerConfig.from_properties(only_broker_id).node_id == 7


def test_directories() -> None:
    assert config(log_dir="/a").log_dirs == ("/a",)
    node = config(log_dir="/a", log_dirs="/b, /c")
    assert node.log_dirs == ("/b", "/c")
    assert node.metadata_log_dir == "/b"
    assert config(metadata_log_dir="/m").metadata_log_dir == "/m"


def test_listeners_are_split_by_purpose() -> None:
    node = config()
    assert [e.listener_name for e in node.broker_listeners] == ["PLAINTEXT"]
    assert [e.listener_name for e in node.controller_listeners] == ["CONTROLLER"]
    assert node.inter_broker_listener_name == "PLAINTEXT"


def test_advertised_listeners() -> None:
    node = config(
        listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://example.org:19092",
    )
    assert list(map(str, node.advertised_broker_listeners())) == ["PLAINTEXT://example.org:19092"]
    ports = {"PLAINTEXT": 1111, "CONTROLLER": 2222}
    assert list(map(str, node.advertised_controller_listeners(ports))) == ["CONTROLLER://127.0.0.1:2222"]
    plain = config(listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")
    assert list(map(str, plain.advertised_broker_listeners(ports))) == ["PLAINTEXT://127.0.0.1:1111"]


def test_a_voter_without_a_host_advertises_its_voter_address() -> None:
    node = config(controller_quorum_voters="1@c1.example.org:19093,2@c2:9093")
    assert list(map(str, node.advertised_controller_listeners())) == ["CONTROLLER://c1.example.org:19093"]
    assert node.quorum_voters == {1: HostPort("c1.example.org", 19093), 2: HostPort("c2", 9093)}
    assert node.quorum_bootstrap_servers == (HostPort("localhost", 9093),)


def test_connection_limits_of_single_hosts() -> None:
    node = config(max_connections_per_ip_overrides="10.0.0.7:5, ::1:6")
    assert node.connection_overrides_per_ip == {"10.0.0.7": 5, "::1": 6}


@pytest.mark.parametrize(
    ("properties", "field", "value"),
    [
        ({}, "retention_ms", 7 * 24 * 3_600_000),
        ({"log.retention.hours": "1"}, "retention_ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention_ms", 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, "retention_ms", 3),
        ({"log.retention.ms": "-7"}, "retention_ms", -1),
        ({"log.roll.hours": "2"}, "segment_ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "9"}, "segment_ms", 9),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "8"}, "flush_ms", 8),
        ({"log.flush.scheduler.interval.ms": "8", "log.flush.interval.ms": "7"}, "flush_ms", 7),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", ("compact", "delete")),
        ({"ruslo.record.validation": "full"}, "ruslo_record_validation", "full"),
        ({"message.max.bytes": "5"}, "max_message_bytes", 5),
    ],
)
def test_broker_keys_give_topics_their_defaults(
    properties: Mapping[str, str], field: str, value: object
) -> None:
    node = BrokerConfig.from_properties({**COMBINED, **properties})
    assert getattr(node.log_config({}), field) == value


def test_default_topic_config_matches_kafka() -> None:
    assert config().log_config({}) == LogConfig()
    assert LogConfig().flush_messages == LONG_MAX


def test_topic_overrides_take_precedence() -> None:
    node = config(log_segment_bytes="2097152")
    topic = node.log_config({"segment.bytes": "3145728", "cleanup.policy": "compact", "unknown": "x"})
    assert (topic.segment_bytes, topic.compacts, topic.deletes) == (3_145_728, True, False)
    assert node.log_config({}).segment_bytes == 2_097_152
    with pytest.raises(InvalidConfig) as rejection:
        node.log_config({"segment.bytes": "1", "retention.ms": "x"})
    assert {problem.key for problem in rejection.value.problems} == {"segment.bytes", "retention.ms"}


def test_dynamic_configs_override_the_file_and_its_synonyms() -> None:
    node = config(log_retention_ms="1000", message_max_bytes="10")
    changed = node.with_dynamic(
        {"log.retention.ms": "5", "message.max.bytes": "20"}, {"message.max.bytes": "30"}
    )
    assert changed.log_config({}).retention_ms == 5
    assert changed.int("message.max.bytes") == 30
    assert node.int("message.max.bytes") == 10
    back = changed.with_dynamic({}, {})
    assert back.log_config({}) == node.log_config({})


def test_invalid_stored_dynamic_configs_are_ignored() -> None:
    node = config().with_dynamic(
        {"message.max.bytes": "many", "node.id": "9", "listeners": "PLAINTEXT://:1", "log.retention.ms": "6"},
        {"log.roll.ms": "none", "ssl.keystore.location": "/x"},
    )
    assert (node.int("message.max.bytes"), node.node_id) == (1_048_588, 1)
    assert node.default_overrides == {"log.retention.ms": "6"}
    assert node.broker_overrides == {}


def test_the_report_lists_properties_without_effect_and_unknown_ones() -> None:
    report = BrokerConfig.from_properties(
        {
            **COMBINED,
            "num.io.threads": "3",
            "listener.name.plaintext.num.io.threads": "4",
            "listener.name.plaintext.ssl.client.auth": "none",
            "listener.name.plaintext.plain.sasl.jaas.config": "Login required;",
            "rsm.config.bucket": "b",
            "log.retention.hour": "3",
            "my.own": "x",
            "broker.heartbeat.interval.ms": "5000",
        }
    ).report()
    assert report.without_effect == [
        "listener.name.plaintext.num.io.threads",
        "listener.name.plaintext.plain.sasl.jaas.config",
        "listener.name.plaintext.ssl.client.auth",
        "num.io.threads",
        "rsm.config.bucket",
    ]
    assert report.unknown == [("log.retention.hour", "log.retention.hours"), ("my.own", None)]
    [warning] = report.warnings
    assert warning.startswith("broker.heartbeat.interval.ms=5000 is more than half of")


def test_properties_of_a_listener_have_an_effect_if_it_has_that_protocol() -> None:
    report = BrokerConfig.from_properties(
        {
            **OUTSIDE,
            "listener.name.outside.ssl.client.auth": "none",
            "listener.name.outside.plain.sasl.jaas.config": "x",
            "listener.name.outside.max.connections": "10",
            "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.gone.max.connections": "10",
        }
    ).report()
    assert report.without_effect == [
        "listener.name.gone.max.connections",
        "listener.name.plaintext.sasl.enabled.mechanisms",
    ]


@pytest.mark.parametrize(
    ("own", "effective", "warned"),
    [({}, "none", True), ({"listener.name.outside.ssl.client.auth": "requested"}, "requested", False)],
)
def test_only_the_listeners_own_client_auth_applies_to_sasl(
    own: dict[str, str], effective: str, warned: bool
) -> None:
    node = BrokerConfig.from_properties({**OUTSIDE, "ssl.client.auth": "required", **own})
    assert node.of_listener("OUTSIDE").str("ssl.client.auth") == effective
    assert node.of_listener("PLAINTEXT").str("ssl.client.auth") == "required"
    warnings = node.report().warnings
    assert any("does not apply to the listener OUTSIDE" in each for each in warnings) == warned


def test_a_plain_node_has_nothing_to_report() -> None:
    assert config().report() == ([], [], [])
