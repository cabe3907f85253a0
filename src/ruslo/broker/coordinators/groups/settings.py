"""The machine's settings, from the broker's configuration and the cluster's features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ruslo.broker.coordinators.groups.assignor_loader import assignor_names
from ruslo.config.broker import BrokerConfig
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.streams.settings import LONG_MAX, GroupSetting, StreamsSettings

MS_PER_MINUTE = 60_000


def group_settings(
    config: BrokerConfig,
    group_version: int,
    streams_version: int,
    group_overrides: Callable[[str], Mapping[str, str]],
    *,
    share_version: int = 0,
) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        max_size=config.int("group.max.size"),
        rebalance_protocols=frozenset(config.list("group.coordinator.rebalance.protocols")),
        group_version=group_version,
        consumer_assignors=assignor_names(config.list("group.consumer.assignors")),
        consumer_session_timeout_ms=config.int("group.consumer.session.timeout.ms"),
        consumer_min_session_timeout_ms=config.int("group.consumer.min.session.timeout.ms"),
        consumer_max_session_timeout_ms=config.int("group.consumer.max.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.int("group.consumer.heartbeat.interval.ms"),
        consumer_min_heartbeat_interval_ms=config.int("group.consumer.min.heartbeat.interval.ms"),
        consumer_max_heartbeat_interval_ms=config.int("group.consumer.max.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.int("group.consumer.assignment.interval.ms"),
        consumer_min_assignment_interval_ms=config.int("group.consumer.min.assignment.interval.ms"),
        consumer_max_assignment_interval_ms=config.int("group.consumer.max.assignment.interval.ms"),
        consumer_max_size=config.int("group.consumer.max.size"),
        consumer_migration_policy=config.str("group.consumer.migration.policy").lower(),
        streams=_streams_settings(config, streams_version),
        share_version=share_version,
        share_session_timeout_ms=config.int("group.share.session.timeout.ms"),
        share_min_session_timeout_ms=config.int("group.share.min.session.timeout.ms"),
        share_max_session_timeout_ms=config.int("group.share.max.session.timeout.ms"),
        share_heartbeat_interval_ms=config.int("group.share.heartbeat.interval.ms"),
        share_min_heartbeat_interval_ms=config.int("group.share.min.heartbeat.interval.ms"),
        share_max_heartbeat_interval_ms=config.int("group.share.max.heartbeat.interval.ms"),
        share_assignment_interval_ms=config.int("group.share.assignment.interval.ms"),
        share_min_assignment_interval_ms=config.int("group.share.min.assignment.interval.ms"),
        share_max_assignment_interval_ms=config.int("group.share.max.assignment.interval.ms"),
        share_max_size=config.int("group.share.max.size"),
        offset_metadata_max_chars=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * MS_PER_MINUTE,
        offsets_retention_check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        group_overrides=group_overrides,
    )


def _streams_settings(config: BrokerConfig, version: int) -> StreamsSettings:
    def limited(name: str) -> GroupSetting:
        default, low, high = (config.int(f"group.streams.{prefix}{name}") for prefix in ("", "min.", "max."))
        return GroupSetting(default, low, high)

    return StreamsSettings(
        version=version,
        assignors=tuple(config.list("group.streams.assignors")),
        max_size=config.int("group.streams.max.size"),
        session_timeout_ms=limited("session.timeout.ms"),
        heartbeat_interval_ms=limited("heartbeat.interval.ms"),
        assignment_interval_ms=limited("assignment.interval.ms"),
        initial_rebalance_delay_ms=GroupSetting(config.int("group.streams.initial.rebalance.delay.ms")),
        num_standby_replicas=GroupSetting(
            config.int("group.streams.num.standby.replicas"),
            high=config.int("group.streams.max.standby.replicas"),
        ),
        num_warmup_replicas=GroupSetting(config.int("group.streams.num.warmup.replicas")),
        task_offset_interval_ms=GroupSetting(
            config.int("group.streams.task.offset.interval.ms"),
            config.int("group.streams.min.task.offset.interval.ms"),
        ),
        acceptable_recovery_lag=GroupSetting(
            config.int("group.streams.acceptable.recovery.lag"), high=LONG_MAX
        ),
        rack_aware_tags=tuple(config.list("group.streams.rack.aware.assignment.tags")),
    )
