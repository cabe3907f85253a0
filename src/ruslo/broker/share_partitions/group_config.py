"""The configs of a share group that the leaders of its partitions follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ruslo.config.broker import BrokerConfig
from ruslo.config.keys.group import GROUP, bounds
from ruslo.machines.share_partition.breaker import BreakerSettings
from ruslo.machines.share_partition.values import ShareSettings


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    settings: ShareSettings
    is_read_committed: bool
    offset_reset: str
    """``share.auto.offset.reset``."""
    is_ordered_by_key: bool = False
    """``ruslo.share.order=key``."""
    delay_header: str = ""
    """``ruslo.share.delay.header``; empty: records are not delayed."""

    dead_letter_topic: str = ""
    """``errors.deadletterqueue.topic.name``; empty: undeliverable records are archived without a copy."""
    copies_records: bool = False
    """``errors.deadletterqueue.copy.record.enable``: a dead letter has the record's key and value."""

    @property
    def has_delivery_rules(self) -> bool:
        """Whether records must be decoded to know when they may be delivered."""
        return self.is_ordered_by_key or bool(self.delay_header)


def share_group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> ShareGroupConfig:
    """``overrides``: the group's own configs; the controller has validated them."""

    def value(name: str) -> object:
        text = overrides.get(name)
        return GROUP[name].default if text is None else GROUP[name].parse(text)

    def number(name: str) -> int:
        """A config of the group within the bounds of the broker, which may have changed since it was set."""
        text = overrides.get(name)
        found = broker.int(f"group.{name}") if text is None else int(text)
        limits = bounds(name)
        if limits is not None:
            found = min(max(found, broker.int(limits[0])), broker.int(limits[1]))
        return found

    return ShareGroupConfig(
        ShareSettings(
            max_record_locks=number("share.partition.max.record.locks"),
            delivery_limit=number("share.delivery.count.limit"),
            lock_duration_ms=number("share.record.lock.duration.ms"),
            allows_renewal=bool(value("share.renew.acknowledge.enable")),
            has_dead_letters=bool(value("errors.deadletterqueue.topic.name")),
            retry_backoff_ms=int(str(value("ruslo.share.retry.backoff.ms"))),
            retry_backoff_max_ms=int(str(value("ruslo.share.retry.backoff.max.ms"))),
            breaker=BreakerSettings(
                percent=int(str(value("ruslo.share.breaker.percent"))),
                window_ms=int(str(value("ruslo.share.breaker.window.ms"))),
                pause_ms=int(str(value("ruslo.share.breaker.pause.ms"))),
            ),
        ),
        is_read_committed=value("share.isolation.level") == "read_committed",
        offset_reset=str(value("share.auto.offset.reset")),
        is_ordered_by_key=value("ruslo.share.order") == "key",
        delay_header=str(value("ruslo.share.delay.header")),
        dead_letter_topic=str(value("errors.deadletterqueue.topic.name")),
        copies_records=bool(value("errors.deadletterqueue.copy.record.enable")),
    )
