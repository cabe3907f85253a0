"""Translates Kafka's client settings for librdkafka.

Most names are the same. Where Kafka and librdkafka disagree on a name or a default, Kafka's applies; the
tables name the exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ruslo.client.settings.bootstrap_servers import parse_bootstrap
from ruslo.client.settings.checking import Checked, required_bootstrap, warn_once
from ruslo.client.settings.security import Value, security_settings
from ruslo.client.settings.setting import SAME, TRANSLATED, ClientConfigValue
from ruslo.client.settings.tables import CONSUMER, PRODUCER
from ruslo.model.secret import Secret

ROUND_ROBIN: Final = "RoundRobinPartitioner"
_CLASSES: Final = "org.apache.kafka.clients.consumer."
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_COOPERATIVE = "cooperative-sticky"
_BROKER_SIDE = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")

# Ranges of librdkafka that are narrower than Kafka's: values are clamped.
_AT_LEAST = {
    "fetch.min.bytes": 1,
    "max.partition.fetch.bytes": 1,
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 1,
    "metadata.max.age.ms": 10,
    "connections.max.idle.ms": 0,
    "receive.buffer.bytes": 0,
    "send.buffer.bytes": 0,
    "compression.zstd.level": 0,
}
_AT_MOST = {"metadata.max.age.ms": 3_600_000, "compression.lz4.level": 12, "compression.zstd.level": 12}
_LOWER_CASE = ("group.protocol", "metadata.recovery.strategy")
_SPECIAL_CASES = frozenset(
    {
        "auto.offset.reset",
        "batch.size",
        "bootstrap.servers",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "partition.assignment.strategy",
        "partitioner.ignore.keys",
        "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)


class ProducerSettings(NamedTuple):
    librdkafka: dict[str, ClientConfigValue]
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    round_robin: bool
    transactional: bool


class ConsumerSettings(NamedTuple):
    librdkafka: dict[str, ClientConfigValue]
    max_poll_records: int
    api_timeout_ms: int
    has_group: bool
    auto_commit: bool
    cooperative: bool
    is_static_member: bool
    read_committed: bool


def producer_settings(config: Mapping[str, ClientConfigValue]) -> ProducerSettings:
    checked = Checked("producer", PRODUCER, config)
    settings = {**_common(checked), **_reliability(checked), **_batching(checked)}
    # librdkafka counts values only and also limits the number of records; Ruslo counts the memory itself.
    settings |= {"queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 2**31 - 1}
    max_request_size = checked.whole("max.request.size")
    settings["message.max.bytes"] = min(max(max_request_size, 1000), 1_000_000_000)
    partitioner = checked.text("partitioner.class")
    if partitioner and partitioner.rpartition(".")[2] != ROUND_ROBIN:
        reason = "it names a Java class"
        raise checked.invalid("partitioner.class", reason, "pass partitioner=, a callable, to the producer")
    return ProducerSettings(
        {**settings, **checked.foreign},
        buffer_memory=checked.whole("buffer.memory"),
        max_block_ms=checked.whole("max.block.ms"),
        max_request_size=max_request_size,
        metadata_max_age_ms=checked.whole("metadata.max.age.ms"),
        retry_backoff_ms=checked.whole("retry.backoff.ms"),
        round_robin=bool(partitioner),
        transactional="transactional.id" in checked,
    )


def consumer_settings(config: Mapping[str, ClientConfigValue]) -> ConsumerSettings:
    checked = Checked("consumer", CONSUMER, config)
    settings = {
        "isolation.level": "read_uncommitted",
        "allow.auto.create.topics": True,
        "check.crcs": True,
        "auto.offset.reset": "latest",
        # librdkafka pauses fetching for a second when its queue is full, which a fast consumer drains sooner.
        "fetch.queue.backoff.ms": 20,
        **_common(checked),
        **_membership(checked),
    }
    reset = checked.text("auto.offset.reset")
    if reset.startswith("by_duration:"):
        fix = "use earliest or latest, or offsets_for_times and seek"
        raise checked.invalid("auto.offset.reset", "librdkafka does not support it", fix)
    settings["auto.offset.reset"] = "error" if reset == "none" else reset
    if (fetch_max_bytes := checked.whole("fetch.max.bytes")) < 1_000_000:
        # librdkafka requires that one record fits, and has a minimum of 1000.
        settings |= dict.fromkeys(("fetch.max.bytes", "message.max.bytes"), max(fetch_max_bytes, 1000))
    has_group = bool(checked.text("group.id"))
    auto_commit = has_group and bool(checked.given.get("enable.auto.commit", True))
    settings |= {"enable.auto.commit": auto_commit, "enable.auto.offset.store": False}
    strategy = str(settings.get("partition.assignment.strategy", ""))
    return ConsumerSettings(
        {**settings, **checked.foreign},
        max_poll_records=checked.whole("max.poll.records"),
        api_timeout_ms=checked.whole("default.api.timeout.ms"),
        has_group=has_group,
        auto_commit=auto_commit,
        cooperative=strategy == _COOPERATIVE or settings.get("group.protocol") == "consumer",
        is_static_member="group.instance.id" in settings,
        read_committed=checked.text("isolation.level") == "read_committed",
    )


def _common(checked: Checked) -> dict[str, Value]:
    addresses = parse_bootstrap(",".join(required_bootstrap(checked)))
    settings: dict[str, Value] = {
        "bootstrap.servers": ",".join(map(str, addresses)),
        # librdkafka's defaults would avoid a restarting broker for up to ten seconds.
        "reconnect.backoff.ms": checked.whole("reconnect.backoff.ms"),
        "reconnect.backoff.max.ms": checked.whole("reconnect.backoff.max.ms"),
    }
    for name, value in checked.given.items():
        setting = checked.table[name]
        if setting.handling not in (SAME, TRANSLATED) or name in _SPECIAL_CASES or value is None:
            continue
        if isinstance(value, Secret):
            value = value.reveal()
        elif isinstance(value, tuple):
            value = ",".join(value)
        elif isinstance(value, str) and name in _LOWER_CASE:
            value = value.lower()
        elif isinstance(value, int) and not isinstance(value, bool):
            value = min(max(value, _AT_LEAST.get(name, value)), _AT_MOST.get(name, value))
        settings[setting.target] = value
    return {**settings, **security_settings(checked)}


def _reliability(checked: Checked) -> dict[str, Value]:
    """acks, idempotence and timeouts by the rules of Kafka's producer."""
    acks_all = checked.text("acks") in ("all", "-1")
    conflicts_with_idempotence = {
        "acks": (not acks_all, "use acks=all"),
        "max.in.flight.requests.per.connection": (
            checked.whole("max.in.flight.requests.per.connection") > 5,
            "use at most 5",
        ),
        "retries": (checked.whole("retries") == 0, "allow retries"),
    }
    idempotent = bool(checked.given.get("enable.idempotence", True))
    required = "enable.idempotence" in checked or "transactional.id" in checked
    for name, (conflicts, fix) in conflicts_with_idempotence.items():
        if conflicts and idempotent:
            if required:
                raise checked.invalid(name, "it conflicts with idempotence and transactions", fix)
            # As in Kafka, an explicit weaker setting turns off idempotence unless that is set, too.
            idempotent = False
            break
    if "transactional.id" in checked and not idempotent:
        fix = "remove it; transactions are idempotent"
        raise checked.invalid("enable.idempotence", "transactional.id needs idempotence", fix)
    linger_ms, request_ms = checked.whole("linger.ms"), checked.whole("request.timeout.ms")
    delivery_ms = checked.whole("delivery.timeout.ms")
    if delivery_ms < linger_ms + request_ms:
        if "delivery.timeout.ms" in checked:
            reason = f"it is below linger.ms + request.timeout.ms ({linger_ms + request_ms})"
            raise checked.invalid("delivery.timeout.ms", reason, "raise it, or lower the others")
        delivery_ms = linger_ms + request_ms
    if "transactional.id" in checked:
        # librdkafka requires this; a record cannot be delivered after its transaction has timed out.
        delivery_ms = min(delivery_ms, checked.whole("transaction.timeout.ms"))
    settings: dict[str, Value] = {
        "enable.idempotence": idempotent,
        "acks": "all" if acks_all else checked.text("acks"),
        "linger.ms": linger_ms,
        "max.in.flight.requests.per.connection": checked.whole("max.in.flight.requests.per.connection"),
        "delivery.timeout.ms": delivery_ms,
        "request.timeout.ms": max(1, request_ms),
    }
    if "request.timeout.ms" in checked:
        # librdkafka requires that a request times out before its transaction.
        limit_ms = checked.whole("transaction.timeout.ms") if "transactional.id" in checked else 300_000
        settings["socket.timeout.ms"] = min(max(request_ms, 10), limit_ms)
    return settings


def _batching(checked: Checked) -> dict[str, Value]:
    # Kafka's clients hash keys with murmur2; librdkafka's default would map keys to other partitions.
    ignore_keys = bool(checked.given.get("partitioner.ignore.keys", False))
    settings: dict[str, Value] = {"partitioner": "random" if ignore_keys else "murmur2_random"}
    if "batch.size" in checked:
        size = checked.whole("batch.size")
        settings |= {"batch.size": size} if size else {"batch.num.messages": 1}
    level = f"compression.{checked.text('compression.type')}.level"
    if level in checked:
        low, high = _AT_LEAST.get(level, -1), _AT_MOST.get(level, 12)
        settings["compression.level"] = min(max(checked.whole(level), low), high)
    return settings


def _membership(checked: Checked) -> dict[str, Value]:
    """Group membership by the rules of Kafka's consumer."""
    if checked.text("group.protocol").lower() == "consumer":
        for name in _BROKER_SIDE:
            if name in checked:
                reason = "with group.protocol=consumer the broker decides it"
                raise checked.invalid(name, reason, "remove it; 'ruslo config set --group' changes it")
        return {}
    settings: dict[str, Value] = {}
    session_ms, poll_ms = checked.whole("session.timeout.ms"), checked.whole("max.poll.interval.ms")
    if checked.whole("heartbeat.interval.ms") >= session_ms:
        fix = "use a third of session.timeout.ms"
        raise checked.invalid("heartbeat.interval.ms", "it is not below session.timeout.ms", fix)
    if poll_ms < session_ms:
        if "session.timeout.ms" in checked:
            reason = f"librdkafka requires at least session.timeout.ms ({session_ms})"
            raise checked.invalid("max.poll.interval.ms", reason, "raise it, or lower session.timeout.ms")
        settings["session.timeout.ms"] = poll_ms
    if "partition.assignment.strategy" in checked:
        settings["partition.assignment.strategy"] = ",".join(_assignors(checked))
    return settings


def _assignors(checked: Checked) -> list[str]:
    given = checked.given["partition.assignment.strategy"]
    assert isinstance(given, tuple)
    names = [_ASSIGNORS.get(name.removeprefix(_CLASSES), name) for name in given]
    for name in names:
        if name not in _ASSIGNORS.values():
            fix = (
                f"use {', '.join(_ASSIGNORS.values())}, or group.protocol=consumer and group.remote.assignor"
            )
            raise checked.invalid("partition.assignment.strategy", f"{name!r} is not supported", fix)
    eager = [name for name in names if name != _COOPERATIVE]
    if eager and len(eager) < len(names):
        # In Java the list means "range until all members support cooperative"; librdkafka cannot mix them.
        text = "partition.assignment.strategy: librdkafka cannot mix cooperative-sticky with others: ignored"
        warn_once("partition.assignment.strategy", text)
        return eager
    return names
