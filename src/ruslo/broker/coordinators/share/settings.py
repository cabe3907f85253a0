"""The machine's settings, from the broker's configuration."""

from __future__ import annotations

from ruslo.config.broker import BrokerConfig
from ruslo.machines.share_coordinator.state import ShareCoordinatorSettings


def share_coordinator_settings(config: BrokerConfig) -> ShareCoordinatorSettings:
    return ShareCoordinatorSettings(
        updates_per_snapshot=config.int("share.coordinator.snapshot.update.records.per.snapshot")
    )
