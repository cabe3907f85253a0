from __future__ import annotations

import pytest

from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.share_settings import share_consumer_settings
from ruslo.client.settings.tables import CONSUMER, SHARE_CONSUMER
from ruslo.machines.share_partition.states import AcquireMode
from ruslo.model.errors import ConfigError

BASE: dict[str, ClientConfigValue] = {"bootstrap.servers": "a:1, b:2", "group.id": "workers"}


def test_defaults_are_kafkas() -> None:
    settings = share_consumer_settings(BASE)
    assert settings.bootstrap_servers == "a:1,b:2"
    assert (settings.explicit, settings.acquire_mode) == (False, AcquireMode.BATCH_OPTIMIZED)
    assert (settings.max_poll_records, settings.max_poll_interval_ms) == (500, 300_000)
    assert (settings.fetch_max_wait_ms, settings.fetch_min_bytes, settings.fetch_max_bytes) == (
        500,
        1,
        52428800,
    )
    assert (settings.rack_id, settings.channel.request_timeout_ms) == (None, 30_000)


def test_modes_and_limits_are_parsed() -> None:
    settings = share_consumer_settings(
        {
            **BASE,
            "share.acknowledgement.mode": "explicit",
            "share.acquire.mode": "record_limit",
            "max.poll.records": "10",
            "client.rack": "a",
        }
    )
    assert (settings.explicit, settings.acquire_mode) == (True, AcquireMode.RECORD_LIMIT)
    assert (settings.max_poll_records, settings.rack_id) == (10, "a")


def test_security_settings_reach_the_connections() -> None:
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
    settings = share_consumer_settings({**BASE, **security, "sasl.password": "secret"})
    assert settings.channel.security.login is not None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"auto.offset.reset": "earliest"}, r"set share\.auto\.offset\.reset of the group"),
        ({"enable.auto.commit": False}, "acknowledge records instead"),
        ({"group.instance.id": "a"}, "no static members"),
        ({"isolation.level": "read_committed"}, r"share\.isolation\.level of the group"),
        ({"share.acknowledgement.mode": "manual"}, "Use one of implicit, explicit"),
        ({"linger.ms": 5}, "a share consumer has no such setting"),
        ({"max.poll.record": 5}, r"did you mean max\.poll\.records"),
        ({"enable.partition.eof": True}, "a share consumer has no such setting"),
        ({"group.id": ""}, "name a share group"),
        ({"bootstrap.servers": ""}, "give at least one HOST:PORT"),
        ({"ssl.truststore.locaton": "x", "security.protocol": "SSL"}, "no such security setting"),
    ],
)
def test_settings_that_a_share_consumer_cannot_have(
    config: dict[str, ClientConfigValue], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?i){message}"):
        share_consumer_settings({**BASE, **config})


def test_every_setting_of_kafkas_consumer_is_included() -> None:
    assert SHARE_CONSUMER.keys() == CONSUMER.keys()
