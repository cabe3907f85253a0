"""Dynamic configs of brokers and topics."""

from __future__ import annotations

import logging

import pytest

from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.config.broker import BrokerConfig
from ruslo.config.log_config import LogConfig
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from tests.support.machines.controller_bench import broker_config, numbered_uuid


class Bench:
    def __init__(self) -> None:
        self.metadata = MetadataLoader()
        self.config = DynamicConfig(broker_config({"log.retention.ms": "1000"}), self.metadata, node_id=1)
        self.brokers: list[BrokerConfig] = []
        self.topics: list[tuple[str, LogConfig]] = []
        self.config.subscribe(self.brokers.append)
        self.config.subscribe_topics(lambda name, config: self.topics.append((name, config)))

    def set(self, kind: int, resource: str, key: str, value: str | None) -> None:
        record = ConfigRecord(resource_type=kind, resource_name=resource, name=key, value=value)
        self.metadata.handle_commit(self.metadata.image.offset + 1, 1, [record])

    def create(self, *names: str) -> None:
        first = self.metadata.image.topics.partition_count + len(self.metadata.image.topics.by_name)
        records = [TopicRecord(name=name, topic_id=numbered_uuid(first + n)) for n, name in enumerate(names)]
        self.metadata.handle_commit(self.metadata.image.offset + 1, 1, records)


def test_broker_configs_override_cluster_defaults() -> None:
    bench = Bench()
    bench.set(4, "", "log.cleaner.threads", "2")
    bench.set(4, "1", "log.cleaner.threads", "3")
    bench.set(4, "2", "log.cleaner.threads", "4")
    assert [each.int("log.cleaner.threads") for each in bench.brokers] == [1, 2, 3]
    assert bench.config.current is bench.brokers[-1]
    bench.set(4, "1", "log.cleaner.threads", None)
    assert bench.config.current.int("log.cleaner.threads") == 2


def test_topics() -> None:
    bench = Bench()
    bench.create("a", "b")
    assert bench.config.log_config("a") is bench.config.log_config("b")
    assert bench.config.log_config("a").retention_ms == 1000
    bench.set(2, "a", "retention.ms", "5")
    assert [(name, config.retention_ms) for name, config in bench.topics] == [("a", 5)]
    bench.set(2, "b", "retention.ms", "5")
    assert bench.config.log_config("a") is bench.config.log_config("b"), "equal configs are one object"
    bench.set(2, "nowhere", "retention.ms", "7")
    assert len(bench.topics) == 2


def test_topics_inherit_broker_defaults() -> None:
    bench = Bench()
    bench.create("a", "b")
    bench.set(2, "a", "retention.ms", "5")
    bench.topics.clear()
    bench.set(4, "", "log.retention.ms", "2000")
    assert {name: config.retention_ms for name, config in bench.topics} == {"a": 5, "b": 2000}


def test_invalid_configs_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.create("a")
    with caplog.at_level(logging.ERROR):
        bench.set(2, "a", "retention.ms", "soon")
    assert bench.config.log_config("a").retention_ms == 1000
    assert "retention.ms" in caplog.text
    bench.set(4, "1", "log.cleaner.threads", "many")
    assert bench.config.current.int("log.cleaner.threads") == 1
