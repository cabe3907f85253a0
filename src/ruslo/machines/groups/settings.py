"""The coordinator's settings as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ruslo.machines.groups.group import CONSUMER, STREAMS
from ruslo.machines.groups.streams.settings import StreamsGroupConfig, StreamsSettings

INT_MAX = 2**31 - 1
_NONE: Mapping[str, str] = MappingProxyType({})


def _no_overrides(group_id: str) -> Mapping[str, str]:
    return _NONE


@dataclass(frozen=True, slots=True)
class GroupSettings:
    # Classic groups.
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = INT_MAX

    # Consumer groups (KIP-848).
    rebalance_protocols: frozenset[str] = frozenset({"classic", "consumer", "streams"})
    group_version: int = 1
    """The finalized level of the feature ``group.version``; 0 disables consumer groups."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_max_size: int = INT_MAX
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000

    streams: StreamsSettings = field(default_factory=StreamsSettings)
    # Share groups (KIP-932).
    share_version: int = 1
    """The finalized level of the feature ``share.version``; 0 disables share groups."""
    share_session_timeout_ms: int = 45_000
    share_min_session_timeout_ms: int = 45_000
    share_max_session_timeout_ms: int = 60_000
    share_heartbeat_interval_ms: int = 5_000
    share_min_heartbeat_interval_ms: int = 5_000
    share_max_heartbeat_interval_ms: int = 15_000
    share_assignment_interval_ms: int = 1_000
    share_min_assignment_interval_ms: int = 0
    share_max_assignment_interval_ms: int = 15_000
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000

    # Offsets.
    offset_metadata_max_chars: int = 4_096
    """``offset.metadata.max.bytes``, which Kafka counts in UTF-16 units, not bytes."""
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    group_overrides: Callable[[str], Mapping[str, str]] = _no_overrides
    """The dynamic configuration of a group (``consumer.session.timeout.ms`` …); empty if it has none."""

    @property
    def has_consumer_groups(self) -> bool:
        return CONSUMER in self.rebalance_protocols and self.group_version >= 1

    @property
    def has_streams_groups(self) -> bool:
        return STREAMS in self.rebalance_protocols and self.streams.version >= 1

    def streams_config_of(self, group_id: str) -> StreamsGroupConfig:
        return self.streams.of_group(self.group_overrides(group_id))

    def consumer_session_timeout_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "consumer.session.timeout.ms",
            self.consumer_session_timeout_ms,
            self.consumer_min_session_timeout_ms,
            self.consumer_max_session_timeout_ms,
        )

    def consumer_heartbeat_interval_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "consumer.heartbeat.interval.ms",
            self.consumer_heartbeat_interval_ms,
            self.consumer_min_heartbeat_interval_ms,
            self.consumer_max_heartbeat_interval_ms,
        )

    def consumer_assignment_interval_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "consumer.assignment.interval.ms",
            self.consumer_assignment_interval_ms,
            self.consumer_min_assignment_interval_ms,
            self.consumer_max_assignment_interval_ms,
        )

    @property
    def has_share_groups(self) -> bool:
        # Unlike consumer groups they do not depend on ``group.coordinator.rebalance.protocols``.
        return self.share_version >= 1

    def share_session_timeout_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "share.session.timeout.ms",
            self.share_session_timeout_ms,
            self.share_min_session_timeout_ms,
            self.share_max_session_timeout_ms,
        )

    def share_heartbeat_interval_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "share.heartbeat.interval.ms",
            self.share_heartbeat_interval_ms,
            self.share_min_heartbeat_interval_ms,
            self.share_max_heartbeat_interval_ms,
        )

    def share_assignment_interval_of(self, group_id: str) -> int:
        return self._override(
            group_id,
            "share.assignment.interval.ms",
            self.share_assignment_interval_ms,
            self.share_min_assignment_interval_ms,
            self.share_max_assignment_interval_ms,
        )

    def _override(self, group_id: str, key: str, default: int, low: int, high: int) -> int:
        # The limits may have changed after the group's value was accepted.
        text = self.group_overrides(group_id).get(key)
        return default if text is None else min(max(int(text), low), high)
