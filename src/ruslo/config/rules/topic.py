"""Rules over several configs of a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ruslo.config.broker import BrokerConfig
from ruslo.config.log_config import NO_LIMIT, SAME_AS_RETENTION, LogConfig


def broken_topic_rules(
    broker: BrokerConfig, old_overrides: Mapping[str, str], new: LogConfig
) -> Iterator[str]:
    """What is wrong with a topic's effective configs: each sentence says what, why and the fix."""
    if new.min_compaction_lag_ms > new.max_compaction_lag_ms:
        yield (
            f"min.compaction.lag.ms={new.min_compaction_lag_ms} is above max.compaction.lag.ms="
            f"{new.max_compaction_lag_ms}: lower the first or raise the second"
        )
    if new.remote_storage_enable:
        yield from _tiering(broker, new)
    elif _was_tiered(old_overrides) and not new.remote_log_delete_on_disable:
        yield (
            "remote.storage.enable=false would orphan the remote data: delete it with "
            "remote.log.delete.on.disable=true, or keep it readable with remote.log.copy.disable=true"
        )


def _was_tiered(old_overrides: Mapping[str, str]) -> bool:
    return old_overrides.get("remote.storage.enable", "").strip().lower() == "true"


def _tiering(broker: BrokerConfig, new: LogConfig) -> Iterator[str]:
    if not broker.bool("remote.log.storage.system.enable"):
        yield (
            "remote.storage.enable=true needs tiered storage, which the brokers do not have: "
            "remove it, or set remote.log.storage.system.enable=true on the brokers"
        )
    if new.compacts:
        yield "remote.storage.enable=true does not support compaction: set cleanup.policy=delete"
    for unit, total, local, lag in (
        ("bytes", new.retention_bytes, new.local_retention_bytes, new.remote_copy_lag_bytes),
        ("ms", new.retention_ms, new.local_retention_ms, new.remote_copy_lag_ms),
    ):
        retained = total if local == SAME_AS_RETENTION else local
        if lag > retained > NO_LIMIT:
            yield (
                f"remote.copy.lag.{unit}={lag} is above the local retention of {retained}: segments would be "
                f"deleted before they are copied. Use a value up to {retained}, or -1 for the same"
            )
        if local == SAME_AS_RETENTION:
            continue
        if new.remote_log_copy_disable and local != total:
            yield (
                f"local.retention.{unit}={local} differs from retention.{unit}={total}, but "
                "remote.log.copy.disable=true stops copying: use the same value, or -2"
            )
        elif total > NO_LIMIT and (local == NO_LIMIT or local > total):
            yield (
                f"local.retention.{unit}={local} is above retention.{unit}={total}: "
                f"use a value up to {total}, or -2 for the same retention"
            )
