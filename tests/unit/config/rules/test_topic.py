from __future__ import annotations

import pytest

from ruslo.config.alteration import replace_topic
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import KafkaError

TIERED = {"remote.storage.enable": "true", "retention.ms": "1000"}
BROKER = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "remote.log.storage.system.enable": "true",
}


@pytest.mark.parametrize(
    ("overrides", "valid"),
    [
        ({"remote.copy.lag.ms": "1000"}, True),
        ({"remote.copy.lag.ms": "1001"}, False),
        ({"remote.copy.lag.ms": "-1"}, True),
        ({"remote.copy.lag.ms": "500", "local.retention.ms": "499"}, False),
        ({"remote.copy.lag.ms": "5000", "retention.ms": "-1"}, True),
        ({"remote.copy.lag.bytes": "5000"}, True),
        ({"remote.copy.lag.bytes": "5000", "local.retention.bytes": "4999"}, False),
    ],
)
def test_a_copy_lag_above_the_local_retention_is_rejected(overrides: dict[str, str], valid: bool) -> None:
    config = BrokerConfig.from_properties(BROKER)
    if valid:
        replace_topic(config, {}, TIERED | overrides)
        return
    with pytest.raises(KafkaError, match="above the local retention"):
        replace_topic(config, {}, TIERED | overrides)
