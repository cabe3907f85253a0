"""The properties of a group. Most take their default from the broker property ``group.NAME``."""

from __future__ import annotations

from ruslo.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    MEDIUM,
    STRING,
    ConfigKey,
    ConfigTable,
)
from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.group_coordinator import TASK_ASSIGNORS
from ruslo.config.keys.inherited import inherited
from ruslo.config.validators import OffsetReset, OneOf, Validator, at_least, between


def _of_broker(name: str, validator: Validator | None = None) -> ConfigKey:
    return inherited(name, f"group.{name}", validator)


# fmt: off
GROUP = ConfigTable("group", (
    _of_broker("consumer.assignment.interval.ms"),
    _of_broker("consumer.heartbeat.interval.ms"),
    _of_broker("consumer.session.timeout.ms"),
    ConfigKey("errors.deadletterqueue.copy.record.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Copy the key and the value of a record into its dead letter (KIP-1191), not only headers about it."),
    ConfigKey("errors.deadletterqueue.topic.name", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Topic for the dead letters of a share group (KIP-1191). Empty: undeliverable records are archived."),
    _of_broker("share.assignment.interval.ms"),
    _of_broker("share.delivery.count.limit", at_least(2)),
    _of_broker("share.heartbeat.interval.ms"),
    _of_broker("share.partition.max.record.locks", at_least(100)),
    _of_broker("share.record.lock.duration.ms", at_least(1_000)),
    _of_broker("share.session.timeout.ms"),
    _of_broker("streams.acceptable.recovery.lag"),
    _of_broker("streams.assignment.interval.ms"),
    ConfigKey("streams.assignor.name", STRING, None, OneOf(*TASK_ASSIGNORS), MEDIUM, CLUSTER_WIDE,
        "Task assignor of a streams group; the default is the first one of group.streams.assignors."),
    _of_broker("streams.heartbeat.interval.ms"),
    _of_broker("streams.initial.rebalance.delay.ms"),
    _of_broker("streams.num.standby.replicas"),
    _of_broker("streams.num.warmup.replicas"),
    _of_broker("streams.rack.aware.assignment.tags"),
    _of_broker("streams.session.timeout.ms"),
    _of_broker("streams.task.offset.interval.ms"),
    ConfigKey("share.auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM, CLUSTER_WIDE,
        "Start offset of a share group without committed state: latest, earliest or by_duration:…."),
    ConfigKey("share.isolation.level", STRING, "read_uncommitted",
        OneOf("read_committed", "read_uncommitted"), MEDIUM, CLUSTER_WIDE,
        "Deliver all records (read_uncommitted) or only committed ones (read_committed)."),
    ConfigKey("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, CLUSTER_WIDE,
        "Let consumers renew the lock of a record."),
    ConfigKey("ruslo.share.breaker.pause.ms", LONG, 30_000, between(1, 3_600_000), MEDIUM, CLUSTER_WIDE,
        "Time for which an open circuit breaker delivers nothing; a few records follow as probes."),
    ConfigKey("ruslo.share.breaker.percent", INT, 0, between(0, 99), MEDIUM, CLUSTER_WIDE,
        "Pause delivery of a share-partition if more records than this percentage, of those finished in the "
        "window, are undeliverable. 0: never."),
    ConfigKey("ruslo.share.breaker.window.ms", LONG, 60_000, between(1_000, 3_600_000), MEDIUM, CLUSTER_WIDE,
        "Window of ruslo.share.breaker.percent."),
    ConfigKey("ruslo.share.delay.header", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Header with the time from which a record of a share group is delivered: milliseconds since 1970, or "
        "+milliseconds after its timestamp. Empty: no delay. Waiting records count as locked ones."),
    ConfigKey("ruslo.share.order", STRING, "none", OneOf("none", "key"), MEDIUM, CLUSTER_WIDE,
        "Order of delivery in a share group: none, or key: one record of a key in flight at a time."),
    ConfigKey("ruslo.share.retry.backoff.max.ms", LONG, 60_000, between(0, 3_600_000), MEDIUM, CLUSTER_WIDE,
        "Maximum of the wait that begins with ruslo.share.retry.backoff.ms."),
    ConfigKey("ruslo.share.retry.backoff.ms", LONG, 0, between(0, 3_600_000), MEDIUM, CLUSTER_WIDE,
        "Wait before the second delivery of a record in a share group, doubled with each delivery. 0: none."),
))
# fmt: on


def bounds(name: str) -> tuple[str, str] | None:
    """The broker properties that hold the minimum and the maximum of a group's property, if it has any."""
    protocol, _, rest = name.partition(".")
    low, high = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
    return (low, high) if low in BROKER and high in BROKER else None
