"""Connection limits and other broker configs that may change at runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.node.server_limits import server_limits
from ruslo.config.broker import BrokerConfig
from ruslo.testing.cluster_layout import single_node_properties
from tests.support.brokers.live_node import LiveNode, live_node


def limits_by_address(tmp_path: Path, overrides: str) -> dict[str, int]:
    key = "max.connections.per.ip.overrides"
    properties = single_node_properties(tmp_path, overrides={key: overrides})
    return dict(server_limits(BrokerConfig.from_properties(properties)).max_connections_of_ip)


def test_host_limits_apply_to_the_resolved_addresses(tmp_path: Path) -> None:
    found = limits_by_address(tmp_path, "localhost:3, 10.0.0.7:4, 2001:DB8:0::1:5, [fe80::1]:6")
    assert found["127.0.0.1"] == 3
    assert "localhost" not in found
    assert (found["10.0.0.7"], found["2001:db8::1"], found["fe80::1"]) == (4, 5, 6)


def test_unknown_host_is_logged_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert limits_by_address(tmp_path, "no..host:3,10.0.0.7:4") == {"10.0.0.7": 4}
    assert "no..host" in caplog.text


async def test_dynamic_configs_survive_a_restart(tmp_path: Path) -> None:
    def check(node: LiveNode) -> None:
        logs = node.node.logs
        assert (logs.producer_expiration_ms, logs.delete_delay_ms) == (5000, 6000)
        assert node.node._broker_server._limits.max_connections_per_ip == 7

    async with live_node(tmp_path) as node:
        await node.alter_all_brokers(
            max_connections_per_ip="7",
            producer_id_expiration_ms="5000",
            log_segment_delete_delay_ms="6000",
        )
        check(node)
    async with live_node(tmp_path) as node:
        check(node)
