"""Group configs that override broker configs."""

from __future__ import annotations

from ruslo.machines.groups.settings import GroupSettings


def test_groups_without_configs_use_the_broker_configs() -> None:
    settings = GroupSettings()
    assert settings.consumer_session_timeout_of("g") == 45_000
    assert settings.consumer_heartbeat_interval_of("g") == 5_000
    assert settings.consumer_assignment_interval_of("g") == 1_000


def test_group_configs_stay_within_the_broker_limits() -> None:
    own = {
        "g": {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"},
        "h": {"consumer.session.timeout.ms": "90000", "consumer.heartbeat.interval.ms": "10"},
    }
    settings = GroupSettings(group_overrides=lambda group_id: own.get(group_id, {}))
    assert settings.consumer_session_timeout_of("g") == 50_000
    assert settings.consumer_heartbeat_interval_of("g") == 7_000
    assert settings.consumer_session_timeout_of("h") == 60_000
    assert settings.consumer_heartbeat_interval_of("h") == 5_000
    assert settings.consumer_session_timeout_of("other") == 45_000
