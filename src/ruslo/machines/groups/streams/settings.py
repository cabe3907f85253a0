"""The settings of streams groups as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class GroupSetting(NamedTuple):
    """A number that the configuration of a group may override, between limits of the broker."""

    default: int
    low: int = 0
    high: int = INT_MAX

    def of(self, overrides: Mapping[str, str], key: str) -> int:
        text = overrides.get(key)
        # The limits may have changed after the group's value was accepted.
        return self.default if text is None else min(max(int(text), self.low), self.high)


class StreamsGroupConfig(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    num_standby_replicas: int
    num_warmup_replicas: int
    rack_aware_tags: tuple[str, ...]
    assignor: str

    def assignment_configs(self) -> dict[str, str]:
        """The configs that a target depends on, as the group's record stores them."""
        configs = {"num.standby.replicas": str(self.num_standby_replicas)}
        if self.rack_aware_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_tags)
        return configs


class StreamsSettings(NamedTuple):
    version: int = 1
    """The finalized level of the feature ``streams.version``; 0 disables streams groups."""
    assignors: tuple[str, ...] = ("sticky",)
    """The names of the task assignors that groups may use; the first one is the default."""
    max_size: int = INT_MAX
    session_timeout_ms: GroupSetting = GroupSetting(45_000, 45_000, 60_000)
    heartbeat_interval_ms: GroupSetting = GroupSetting(5_000, 5_000, 15_000)
    assignment_interval_ms: GroupSetting = GroupSetting(1_000, 0, 15_000)
    initial_rebalance_delay_ms: GroupSetting = GroupSetting(3_000)
    task_offset_interval_ms: GroupSetting = GroupSetting(60_000, 15_000)
    acceptable_recovery_lag: GroupSetting = GroupSetting(10_000, 0, LONG_MAX)
    num_standby_replicas: GroupSetting = GroupSetting(0, 0, 2)
    num_warmup_replicas: GroupSetting = GroupSetting(2)
    rack_aware_tags: tuple[str, ...] = ()

    def of_group(self, overrides: Mapping[str, str]) -> StreamsGroupConfig:
        """``overrides``: the dynamic configuration of the group."""
        tags = overrides.get("streams.rack.aware.assignment.tags")
        assignor = overrides.get("streams.assignor.name", "")
        return StreamsGroupConfig(
            session_timeout_ms=self.session_timeout_ms.of(overrides, "streams.session.timeout.ms"),
            heartbeat_interval_ms=self.heartbeat_interval_ms.of(overrides, "streams.heartbeat.interval.ms"),
            assignment_interval_ms=self.assignment_interval_ms.of(
                overrides, "streams.assignment.interval.ms"
            ),
            initial_rebalance_delay_ms=self.initial_rebalance_delay_ms.of(
                overrides, "streams.initial.rebalance.delay.ms"
            ),
            task_offset_interval_ms=self.task_offset_interval_ms.of(
                overrides, "streams.task.offset.interval.ms"
            ),
            acceptable_recovery_lag=self.acceptable_recovery_lag.of(
                overrides, "streams.acceptable.recovery.lag"
            ),
            num_standby_replicas=self.num_standby_replicas.of(overrides, "streams.num.standby.replicas"),
            num_warmup_replicas=self.num_warmup_replicas.of(overrides, "streams.num.warmup.replicas"),
            rack_aware_tags=self.rack_aware_tags if tags is None else tuple(filter(None, tags.split(","))),
            # The broker may not offer the group's assignor any more.
            assignor=assignor if assignor in self.assignors else self.assignors[0],
        )
