"""The configs of a share group: its own, within the bounds of the broker, or the broker's."""

from __future__ import annotations

from ruslo.broker.share_partitions.group_config import share_group_config
from ruslo.config.broker import BrokerConfig
from ruslo.machines.share_partition.values import ShareSettings


def broker(**properties: str) -> BrokerConfig:
    listed = {name.replace("_", "."): value for name, value in properties.items()}
    return BrokerConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "log.dirs": "/tmp",
            **listed,
        }
    )


def test_a_group_without_configs_has_those_of_the_broker() -> None:
    config = share_group_config(broker(group_share_delivery_count_limit="7"), {})
    assert config.settings == ShareSettings(
        2_000, 7, 30_000, allows_renewal=True, retry_backoff_max_ms=60_000
    )
    assert (config.is_read_committed, config.offset_reset) == (False, "latest")


def test_the_configs_of_a_group_apply_within_the_bounds_of_the_broker() -> None:
    config = share_group_config(
        broker(),
        {
            "share.record.lock.duration.ms": "20000",
            "share.delivery.count.limit": "99",
            "share.partition.max.record.locks": "10",
            "share.renew.acknowledge.enable": "false",
            "share.isolation.level": "read_committed",
            "share.auto.offset.reset": "by_duration:PT1H",
        },
    )
    assert config.settings == ShareSettings(
        100, 10, 20_000, allows_renewal=False, retry_backoff_max_ms=60_000
    )
    assert (config.is_read_committed, config.offset_reset) == (True, "by_duration:PT1H")
