"""Kafka's own client settings, as librdkafka spells them.

Most names are the same. Where Kafka's documentation and librdkafka disagree on a name or a default, users of
Ruslo get Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ruslo.model.errors import ConfigError

ConfigValue: TypeAlias = str | int | float | bool

_RENAMED: Mapping[str, str] = {
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
}

_PARTITIONERS = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "random",
}

_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}

_PRODUCER_DEFAULTS: Mapping[str, ConfigValue] = {
    # Kafka's clients hash keys with murmur2; librdkafka's own default would spread the same keys differently.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
    "linger.ms": 5,
}

_CONSUMER_DEFAULTS: Mapping[str, ConfigValue] = {
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": True,
    # With enough queued librdkafka stops to fetch for a whole second; a fast reader runs dry sooner.
    "fetch.queue.backoff.ms": 20,
}

_JVM_ONLY = {
    "key.serializer": "pass bytes",
    "value.serializer": "pass bytes",
    "key.deserializer": "records come as bytes",
    "value.deserializer": "records come as bytes",
    "sasl.jaas.config": "set sasl.username and sasl.password",
    "ssl.truststore.location": "set ssl.ca.location to a PEM file",
    "ssl.keystore.type": "set ssl.certificate.location and ssl.key.location to PEM files",
    "interceptor.classes": "wrap send() or poll()",
    "metric.reporters": "use statistics.interval.ms",
}


def producer_settings(config: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    settings = _translate(config)
    if "buffer.memory" in settings:
        kbytes = max(1, _whole_number("buffer.memory", settings.pop("buffer.memory")) // 1024)
        settings.setdefault("queue.buffering.max.kbytes", kbytes)
    if "partitioner.class" in settings:
        name = settings.pop("partitioner.class")
        settings.setdefault("partitioner", _named(_PARTITIONERS, "partitioner.class", name))
    defaults = dict(_PRODUCER_DEFAULTS)
    if str(config.get("acks", "all")) not in ("all", "-1"):
        # As in Kafka's producer: idempotence is on by default, but gives way to an explicit weaker acks.
        defaults["enable.idempotence"] = False
    return {**defaults, **settings}


def consumer_settings(config: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    settings = _translate(config)
    if settings.get("auto.offset.reset") == "none":
        settings["auto.offset.reset"] = "error"
    if "partition.assignment.strategy" in settings:
        names = str(settings["partition.assignment.strategy"]).split(",")
        settings["partition.assignment.strategy"] = ",".join(
            _ASSIGNORS.get(name.strip(), name.strip()) for name in names
        )
    return {**_CONSUMER_DEFAULTS, **settings}


def _translate(config: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    settings: dict[str, ConfigValue] = {}
    for key, value in config.items():
        if key in _JVM_ONLY:
            raise ConfigError(f"{key} belongs to the Java client and has no meaning here: {_JVM_ONLY[key]}")
        settings[_RENAMED.get(key, key)] = value
    if not settings.get("bootstrap.servers"):
        raise ConfigError("bootstrap.servers is missing: give at least one HOST:PORT")
    return settings


def take_int(settings: dict[str, ConfigValue], key: str, default: int) -> int:
    """Remove a setting that librdkafka does not know and we carry out ourselves."""
    return _whole_number(key, settings.pop(key, default))


def _whole_number(key: str, value: ConfigValue) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{key} must be a whole number, got {value!r}") from None


def _named(table: Mapping[str, str], key: str, value: ConfigValue) -> str:
    name = table.get(str(value))
    if name is None:
        raise ConfigError(
            f"{key}={value} names a Java class that has no twin here: set 'partitioner' instead"
        )
    return name
