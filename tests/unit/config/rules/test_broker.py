from __future__ import annotations

from collections.abc import Mapping

import pytest

from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import InvalidConfig

COMBINED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
BROKER = {**COMBINED, "process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
CONTROLLER = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://:9093"}


@pytest.mark.parametrize("properties", [COMBINED, BROKER, CONTROLLER])
def test_valid_configs_break_no_rule(properties: Mapping[str, str]) -> None:
    assert BrokerConfig.from_properties(properties).node_id == 1


# The changed properties, the reported key (None: the changed one), and part of the reason.
@pytest.mark.parametrize(
    ("base", "change", "key", "reason"),
    [
        (COMBINED, {"broker.id": "2"}, None, "differs from node.id=1"),
        (COMBINED, {"controller.quorum.bootstrap.servers": ""}, None, "not know"),
        (COMBINED, {"controller.quorum.voters": "2@h:1"}, None, "not among the voters"),
        (BROKER, {"controller.quorum.voters": "1@h:1"}, None, "only the broker role"),
        (BROKER, {"controller.quorum.auto.join.enable": "true"}, None, "only"),
        (COMBINED, {"controller.listener.names": "CONTROLLER,OTHER"}, None, "OTHER is not among"),
        (CONTROLLER, {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"}, None, "broker listener PLAINTEXT"),
        (BROKER, {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
         "controller.listener.names", "only a broker"),
        (BROKER, {"listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT"},
         "controller.listener.names", "no security protocol"),
        (COMBINED, {"early.start.listeners": "SSL"}, None, "SSL is not among"),
        (COMBINED, {"inter.broker.listener.name": "SSL"}, None, "not advertised"),
        (COMBINED, {"inter.broker.listener.name": "NOWHERE"}, None, "no security"),
        (CONTROLLER, {"inter.broker.listener.name": "CONTROLLER"}, None, "is a controller"),
        (COMBINED, {"listeners": "CONTROLLER://:1"}, "advertised.listeners", "all listeners are controller"),
        (COMBINED, {"advertised.listeners": "SSL://h:1"}, None, "SSL is not among"),
        (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, None, "cannot connect to 0.0.0.0"),
        (COMBINED, {"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"},
         "advertised.listeners", "cannot connect to 0.0.0.0"),
        (COMBINED, {"max.connections.per.ip": "0"}, None, "no client could connect"),
        (COMBINED, {"max.connections.per.ip.overrides": "h"}, None, "host to a number"),
        (COMBINED, {"queued.max.request.bytes": "5"}, None, "never fit"),
        (COMBINED, {"connections.max.idle.ms": "9"},
         "connection.failed.authentication.delay.ms", "would close the connection first"),
        (COMBINED, {"log.roll.ms": "0"}, None, "below 1"),
        (COMBINED, {"log.roll.jitter.ms": "-1"}, None, "below 0"),
        (COMBINED, {"log.retention.minutes": "0"}, "log.retention.ms", "at once"),
        (COMBINED, {"log.flush.interval.ms": "-1"}, None, "below 0"),
        (COMBINED, {"log.cleaner.max.compaction.lag.ms": "5", "log.cleaner.min.compaction.lag.ms": "6"},
         "log.cleaner.min.compaction.lag.ms", "above log.cleaner.max.compaction.lag.ms=5"),
        (COMBINED, {"log.cleaner.dedupe.buffer.size": "1048576"}, None, "1048576"),
        (COMBINED, {"cordoned.log.dirs": "/x"}, None, "/x is not among log.dirs"),
        (COMBINED, {"log.dirs": "/x", "cordoned.log.dirs": "*,/x"}, "cordoned.log.dirs", "already means all"),
        (COMBINED, {"replica.fetch.wait.max.ms": "30001"}, None, "replica.lag.time.max.ms"),
        (COMBINED, {"group.consumer.session.timeout.ms": "1"}, None, "not between"),
        (COMBINED, {"group.coordinator.rebalance.protocols": "consumer"}, None, "cannot be disabled"),
        (COMBINED, {"group.share.assignors": "a,b"}, None, "exactly one"),
        (COMBINED, {"group.streams.num.standby.replicas": "3"}, None, "above"),
        (COMBINED, {"security.inter.broker.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN",
                    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                    "listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2"},
         "sasl.mechanism.inter.broker.protocol", "not enabled"),
    ],
)  # fmt: skip
def test_a_broken_rule_reports_property_reason_and_fix(
    base: Mapping[str, str], change: Mapping[str, str], key: str | None, reason: str
) -> None:
    with pytest.raises(InvalidConfig) as error_text:
        BrokerConfig.from_properties({**base, **change})
    reported_key = key or next(iter(change))
    problems = [problem for problem in error_text.value.problems if problem.key == reported_key]
    assert any(reason in problem.reason for problem in problems)
    assert all(problem.fix for problem in problems)


def test_sasl_mechanisms_of_a_listener_take_precedence() -> None:
    node = BrokerConfig.from_properties(
        {
            **COMBINED,
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "GSSAPI, PLAIN",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2",
        }
    )
    assert node.enabled_sasl_mechanisms("SASL_PLAINTEXT") == ("GSSAPI", "PLAIN")
    assert node.enabled_sasl_mechanisms("OTHER") == ("PLAIN",)
