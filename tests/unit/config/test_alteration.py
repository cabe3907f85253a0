from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from ruslo.config.alteration import (
    MAX_VALUE_CHARS,
    Alteration,
    AlterOp,
    alter_broker_keys,
    alter_client_metrics,
    alter_group,
    alter_topic,
    changes,
    replace_broker,
    replace_client_metrics,
    replace_group,
    replace_topic,
)
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ErrorCode, KafkaError

NODE = BrokerConfig.from_properties(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
)


def edit(name: str, op: AlterOp, value: str | None = None) -> list[Alteration]:
    return [Alteration(name, op, value)]


def rejected(action: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaError) as rejection:
        action()
    return rejection.value


def test_set_and_delete() -> None:
    current = {"retention.ms": "5", "segment.ms": "6"}
    assert alter_topic(NODE, current, edit("retention.ms", AlterOp.SET, "7")) == {
        **current,
        "retention.ms": "7",
    }
    assert alter_topic(NODE, current, edit("retention.ms", AlterOp.DELETE)) == {"segment.ms": "6"}
    assert alter_topic(NODE, current, edit("flush.ms", AlterOp.DELETE)) == current
    assert current == {"retention.ms": "5", "segment.ms": "6"}


@pytest.mark.parametrize(
    ("current", "op", "value", "result"),
    [
        ({}, AlterOp.APPEND, "compact", "delete,compact"),
        ({}, AlterOp.APPEND, "delete", "delete"),
        ({"cleanup.policy": "compact"}, AlterOp.APPEND, "delete,compact", "compact,delete"),
        ({"cleanup.policy": ""}, AlterOp.APPEND, "compact", "compact"),
        ({}, AlterOp.SUBTRACT, "delete", ""),
        ({"cleanup.policy": "compact,delete"}, AlterOp.SUBTRACT, "delete", "compact"),
        ({"cleanup.policy": "compact"}, AlterOp.SUBTRACT, "delete", "compact"),
    ],
)
def test_append_and_subtract(current: Mapping[str, str], op: AlterOp, value: str, result: str) -> None:
    assert alter_topic(NODE, current, edit("cleanup.policy", op, value)) == {"cleanup.policy": result}


@pytest.mark.parametrize(
    ("alterations", "code", "message"),
    [
        (edit("retention.ms", AlterOp.APPEND, "1"), ErrorCode.INVALID_CONFIG, "append to retention.ms"),
        (edit("nope", AlterOp.SUBTRACT, "1"), ErrorCode.INVALID_CONFIG, "because it is unknown"),
        (edit("nope", AlterOp.SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (edit("retention.msec", AlterOp.SET, "1"), ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        (edit("num.io.threads", AlterOp.SET, "1"), ErrorCode.INVALID_CONFIG, "it is a broker config"),
        (edit("segment.bytes", AlterOp.SET, "5"), ErrorCode.INVALID_CONFIG, "configuration segment.bytes=5"),
        (edit("cleanup.policy", AlterOp.APPEND, "shred"), ErrorCode.INVALID_CONFIG, "'shred' is not a known"),
        (edit("retention.ms", AlterOp.SET), ErrorCode.INVALID_REQUEST, "retention.ms has no value"),
        ([Alteration("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        (edit("retention.ms", AlterOp.SET, "1") * 2, ErrorCode.INVALID_REQUEST, "changed twice"),
        (edit("min.compaction.lag.ms", AlterOp.SET, "9223372036854775807")
         + edit("max.compaction.lag.ms", AlterOp.SET, "5"), ErrorCode.INVALID_CONFIG, "is above max"),
        (edit("leader.replication.throttled.replicas", AlterOp.SET, "0:1," * MAX_VALUE_CHARS),
         ErrorCode.INVALID_CONFIG, "shorten it"),
    ],
)  # fmt: skip
def test_rejected_changes_of_a_topic(alterations: list[Alteration], code: ErrorCode, message: str) -> None:
    error = rejected(lambda: alter_topic(NODE, {}, alterations))
    assert error.code is code
    assert error.message is not None
    assert message in error.message


def test_rules_use_the_old_overrides() -> None:
    current = {"max.compaction.lag.ms": "5"}
    error = rejected(lambda: alter_topic(NODE, current, edit("min.compaction.lag.ms", AlterOp.SET, "6")))
    assert error.code is ErrorCode.INVALID_CONFIG


def test_complete_replacement_of_a_topics_overrides() -> None:
    assert replace_topic(NODE, {"a": "b"}, {"retention.ms": "5"}) == {"retention.ms": "5"}
    assert rejected(lambda: replace_topic(NODE, {}, {"retention.ms": None})).code is ErrorCode.INVALID_CONFIG


def test_tiered_storage_needs_a_broker_with_it_and_is_not_disabled_with_remote_data() -> None:
    tiered = {"remote.storage.enable": "true"}
    assert "needs tiered storage" in str(rejected(lambda: replace_topic(NODE, {}, tiered)))
    left = {"remote.storage.enable": "false"}
    assert "would orphan the remote data" in str(rejected(lambda: replace_topic(NODE, tiered, left)))
    deleting = {**left, "remote.log.delete.on.disable": "true"}
    assert replace_topic(NODE, tiered, deleting) == deleting


def alter_broker(alterations: Sequence[Alteration], *, per_broker: bool) -> Mapping[str, str]:
    """Validate the change as the broker itself does."""
    new = alter_broker_keys({}, alterations, per_broker=per_broker)
    changed = replace_broker(NODE, new, per_broker=per_broker)
    return changed.broker_overrides if per_broker else changed.default_overrides


def test_changes_of_a_broker() -> None:
    set_size = edit("message.max.bytes", AlterOp.SET, "5")
    assert alter_broker(set_size, per_broker=True) == {"message.max.bytes": "5"}
    assert alter_broker(set_size, per_broker=False) == {"message.max.bytes": "5"}
    rate = edit("leader.replication.throttled.rate", AlterOp.SET, "1000")
    assert alter_broker(rate, per_broker=True) == {"leader.replication.throttled.rate": "1000"}
    plugin = edit("my.plugin.key", AlterOp.SET, "x")
    assert alter_broker(plugin, per_broker=False) == {"my.plugin.key": "x"}
    scoped = edit("listener.name.plaintext.ssl.keystore.location", AlterOp.SET, "/k")
    assert alter_broker(scoped, per_broker=True)


@pytest.mark.parametrize(
    ("name", "value", "per_broker", "message"),
    [
        ("node.id", "5", True, "Set it in the property file and restart"),
        ("message.max.bytes", "x", True, "Invalid configuration message.max.bytes=x"),
        ("leader.replication.throttled.rate", "-1", True, "below the minimum 0"),
        ("listeners", "PLAINTEXT://:1", False, "set it for one broker"),
        ("listener.name.plaintext.ssl.client.auth", "none", False, "set it for one broker"),
        ("ssl.keystore.location", "/k", True, "use listener.name.NAME.ssl.keystore.location"),
        ("log.cleaner.dedupe.buffer.size", "5", False, "cleaner threads"),
        ("listeners", "PLAINTEXT://:1", True, "CONTROLLER is not among the listeners"),
    ],
)
def test_rejected_changes_of_a_broker(name: str, value: str, per_broker: bool, message: str) -> None:
    error = rejected(lambda: alter_broker(edit(name, AlterOp.SET, value), per_broker=per_broker))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert message in str(error)


def test_append_needs_a_list() -> None:
    appended = edit("message.max.bytes", AlterOp.APPEND, "5")
    assert rejected(lambda: alter_broker(appended, per_broker=True)).code is ErrorCode.INVALID_CONFIG
    assert (
        rejected(lambda: replace_broker(NODE, {"x": None}, per_broker=True)).code is ErrorCode.INVALID_REQUEST
    )


def test_changes_of_a_group() -> None:
    set_timeout = edit("consumer.session.timeout.ms", AlterOp.SET, "50000")
    assert alter_group(NODE, {}, set_timeout) == {"consumer.session.timeout.ms": "50000"}
    for name, value, message in (
        ("consumer.session.timeout.ms", "5", "Use a number from 45000 to 60000"),
        (
            "streams.num.standby.replicas",
            "3",
            "must be less than or equal to group.streams.max.standby.replicas=2",
        ),
        ("session.timeout.ms", "3", "Unknown group config name"),
        ("share.isolation.level", "dirty", "Use one of read_committed, read_uncommitted"),
    ):
        error = rejected(lambda name=name, value=value: replace_group(NODE, {name: value}))  # type: ignore[misc]
        assert error.code is ErrorCode.INVALID_CONFIG
        assert message in str(error)


def test_a_group_session_must_outlast_its_heartbeat() -> None:
    node = BrokerConfig.from_properties({**NODE.static, "group.consumer.max.heartbeat.interval.ms": "60000"})
    error = rejected(lambda: replace_group(node, {"consumer.heartbeat.interval.ms": "45000"}))
    assert "must be greater than consumer.heartbeat.interval.ms" in str(error)


def test_config_records_of_a_change() -> None:
    assert changes({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == [("b", "3"), ("c", "4"), ("a", None)]
    assert changes({"a": "1"}, {"a": "1"}) == []


def test_client_metrics() -> None:
    current = {"metrics": "a.", "match": "client_id=x"}
    assert alter_client_metrics(current, edit("metrics", AlterOp.APPEND, "b.")) == {
        **current,
        "metrics": "a.,b.",
    }
    assert alter_client_metrics(current, edit("match", AlterOp.DELETE)) == {"metrics": "a."}
    assert replace_client_metrics({"interval.ms": "100"}) == {"interval.ms": "100"}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("interval", "1000", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("metrics", "a,,b", ErrorCode.INVALID_CONFIG),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "colour=red", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=(", ErrorCode.INVALID_CONFIG),
        ("match", None, ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_client_metrics(name: str, value: str | None, code: ErrorCode) -> None:
    assert rejected(lambda: replace_client_metrics({name: value})).code is code
