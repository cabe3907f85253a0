"""Settings of share consumers: those of Kafka's KafkaShareConsumer.

The native client implements them, so ``handling`` is never librdkafka here.
"""

from __future__ import annotations

from ruslo.client.settings.connection_keys import CONNECTION_KEYS
from ruslo.client.settings.consumer_keys import CONSUMER_KEYS
from ruslo.client.settings.setting import IGNORED, OURS, REFUSED, Handling, Setting, setting
from ruslo.config.definition import STRING
from ruslo.config.validators import OneOf

_OURS = (
    "bootstrap.servers",
    "client.id",
    "client.rack",
    "check.crcs",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "max.poll.interval.ms",
    "max.poll.records",
    "request.timeout.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
_BY_THE_GROUP = {
    "auto.offset.reset": "set share.auto.offset.reset of the group: ruslo config set --group",
    "enable.auto.commit": "acknowledge records instead; share.acknowledgement.mode says how",
    "group.instance.id": "share groups have no static members",
    "group.protocol": "remove it; share groups have a protocol of their own",
    "group.remote.assignor": "remove it; the broker assigns partitions to share consumers",
    "heartbeat.interval.ms": "set share.heartbeat.interval.ms of the group: ruslo config set --group",
    "isolation.level": "set share.isolation.level of the group: ruslo config set --group",
    "partition.assignment.strategy": "remove it; the broker assigns partitions to share consumers",
    "session.timeout.ms": "set share.session.timeout.ms of the group: ruslo config set --group",
}
"""Settings that Kafka's share consumer rejects."""
_REFUSED = ("config.providers", "interceptor.classes", "key.deserializer", "value.deserializer")
_NO_EFFECT = "The native client does not have it."


def _handled(known: Setting, handling: Handling, doc: str | None = None) -> Setting:
    key = known.key if doc is None else known.key._replace(doc=doc)
    return Setting(key, handling, key.name)


def _table() -> tuple[Setting, ...]:
    own = {each.key.name for each in _MODES}
    found = list(_MODES)
    for known in (*CONSUMER_KEYS, *CONNECTION_KEYS):
        name = known.key.name
        if name in own:
            continue
        if name in _OURS:
            found.append(_handled(known, OURS))
        elif name in _BY_THE_GROUP:
            found.append(_handled(known, REFUSED, _BY_THE_GROUP[name]))
        elif name in _REFUSED:
            found.append(_handled(known, REFUSED))
        else:
            found.append(_handled(known, IGNORED, _NO_EFFECT))
    return tuple(sorted(found, key=lambda each: each.key.name))


# fmt: off
_MODES = (
    setting("share.acknowledgement.mode", STRING, "implicit", OneOf("implicit", "explicit"), OURS,
        "implicit: the next poll accepts the records of the last one; explicit: the application acknowledges "
        "each record."),
    setting("share.acquire.mode", STRING, "BATCH_OPTIMIZED", OneOf("BATCH_OPTIMIZED", "RECORD_LIMIT",
        ignore_case=True), OURS,
        "record_limit: acquire at most max.poll.records; batch_optimized: round up to whole batches."),
)
# fmt: on

SHARE_CONSUMER_KEYS = _table()
