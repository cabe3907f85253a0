from __future__ import annotations

from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import ConfigType
from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC
from ruslo.config.resolution import (
    ConfigEntry,
    ConfigSource,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)

NODE = BrokerConfig.from_properties(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.retention.minutes": "60",
        "message.max.bytes": "10",
        "ssl.key.password": "hunter2",
        "my.own": "x",
        "listener.name.plaintext.max.connections": "5",
    }
).with_dynamic({"message.max.bytes": "20", "log.segment.bytes": "2097152"}, {"message.max.bytes": "30"})

OWN = ConfigSource.DYNAMIC_BROKER_CONFIG
SHARED = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


def by_name(entries: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_a_topic_shows_every_layer_of_a_value() -> None:
    entry = by_name(describe_topic(NODE, {"max.message.bytes": " 40 "}))["max.message.bytes"]
    assert (entry.value, entry.source) == ("40", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert entry.synonyms == (
        Synonym("max.message.bytes", "40", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("message.max.bytes", "30", OWN),
        Synonym("message.max.bytes", "20", SHARED),
        Synonym("message.max.bytes", "10", STATIC),
        Synonym("message.max.bytes", "1048588", DEFAULT),
    )
    assert (entry.read_only, entry.sensitive, entry.type) == (False, False, ConfigType.INT)
    assert entry.doc == TOPIC["max.message.bytes"].doc


def test_a_topic_lists_all_or_the_requested_configs() -> None:
    public = {key.name for key in TOPIC if not key.internal}
    assert {entry.name for entry in describe_topic(NODE, {})} == public
    assert [entry.name for entry in describe_topic(NODE, {}, ["segment.bytes"])] == ["segment.bytes"]


def test_a_topic_inherits_in_its_own_unit() -> None:
    topic = by_name(describe_topic(NODE, {}))
    assert topic["retention.ms"].value == "3600000"
    # As in Kafka, a value that is set under a weaker synonym is shown as the default.
    assert (topic["retention.ms"].source, topic["retention.ms"].synonyms) == (DEFAULT, ())
    assert (topic["segment.bytes"].value, topic["segment.bytes"].source) == ("2097152", SHARED)
    assert topic["remote.storage.enable"].synonyms == ()
    assert topic["ruslo.record.validation"].value == "header"


def test_lists_keep_their_order() -> None:
    policy = by_name(describe_topic(NODE, {"cleanup.policy": "delete, compact"}))["cleanup.policy"]
    assert policy.value == "delete,compact"


def test_an_unknown_override_is_shown_without_its_value() -> None:
    entry = by_name(describe_topic(NODE, {"old.key": "x"}))["old.key"]
    assert (entry.value, entry.sensitive, entry.type) == (None, True, 0)


def test_an_override_that_became_invalid_is_returned_unchanged() -> None:
    assert by_name(describe_topic(NODE, {"segment.bytes": "5"}))["segment.bytes"].value == "5"


def test_an_internal_property_is_shown_if_it_is_set() -> None:
    name = "producer.id.expiration.check.interval.ms"
    assert name not in by_name(describe_broker(NODE))
    node = BrokerConfig.from_properties({**NODE.static, name: "5"})
    assert by_name(describe_broker(node))[name].value == "5"


def test_an_internal_property_of_a_topic_is_shown_if_it_is_set() -> None:
    assert "internal.segment.bytes" not in by_name(describe_topic(NODE, {}))
    entry = by_name(describe_topic(NODE, {"internal.segment.bytes": "1000"}))["internal.segment.bytes"]
    assert (entry.value, entry.source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_a_broker_shows_its_properties_and_unknown_ones() -> None:
    broker = by_name(describe_broker(NODE))
    shown = {key.name for key in BROKER if not key.internal}
    assert set(broker) == {*shown, "my.own", "listener.name.plaintext.max.connections"}
    assert (broker["message.max.bytes"].value, broker["message.max.bytes"].source) == ("30", OWN)
    assert broker["node.id"].read_only
    assert not broker["message.max.bytes"].read_only
    assert (broker["broker.id"].value, broker["broker.id"].source) == ("1", STATIC)
    assert (broker["my.own"].value, broker["my.own"].sensitive) == (None, True)
    scoped = broker["listener.name.plaintext.max.connections"]
    assert (scoped.value, scoped.source) == ("5", STATIC)
    assert [s.name for s in scoped.synonyms] == [scoped.name, "max.connections"]
    minutes = broker["log.retention.minutes"]
    assert [s.name for s in minutes.synonyms] == ["log.retention.minutes", "log.retention.hours"]


def test_secrets_are_hidden_in_every_layer() -> None:
    entry = by_name(describe_broker(NODE))["ssl.key.password"]
    assert (entry.value, entry.sensitive) == (None, True)
    assert entry.synonyms == (Synonym("ssl.key.password", None, STATIC),)


def test_the_cluster_wide_resource_shows_only_its_own_configs() -> None:
    entries = by_name(describe_broker_defaults(NODE))
    assert set(entries) == {"message.max.bytes", "log.segment.bytes"}
    assert entries["message.max.bytes"].value == "20"
    assert entries["message.max.bytes"].synonyms == (Synonym("message.max.bytes", "20", SHARED),)


def test_a_group_inherits_from_its_broker() -> None:
    group = by_name(describe_group(NODE, {"consumer.session.timeout.ms": "50000"}))
    assert set(group) == set(GROUP.keys)
    own = group["consumer.session.timeout.ms"]
    assert (own.value, own.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [s.name for s in own.synonyms] == [
        "consumer.session.timeout.ms",
        "group.consumer.session.timeout.ms",
    ]
    assert group["share.isolation.level"].synonyms == (
        Synonym("share.isolation.level", "read_uncommitted", DEFAULT),
    )
