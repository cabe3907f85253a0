"""The options of ``format("ruslo")`` for writing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from ruslo.client.settings.channel_security import is_security_setting
from ruslo.model.errors import ConfigError
from ruslo.model.topics import topic_name_problem
from ruslo.pipeline.client_properties import ClientProperties, parse_client_properties
from ruslo.pipeline.dead_letters.options import sink_topic
from ruslo.pipeline.option_values import OptionValues
from ruslo.pipeline.suggestions import nearest
from ruslo.records.compression import Codec

Delivery = Literal["exactly_once", "at_least_once"]

DEFAULT_SINK_NAME: Final = "sink"
_BATCH_BYTES: Final = 512 * 1024
_MEMORY_BYTES: Final = 1024 * 1024
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_SINK_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,100}\Z")

KNOWN: Final = (
    "topic",
    "delivery",
    "sinkName",
    "stagingPath",
    "stagingMemory",
    "compression",
    "deadLetterTopic",
    _TRANSACTION_TIMEOUT,
    # Spark passes these to every sink.
    "checkpointLocation",
    "queryName",
    "path",
    "includeHeaders",
)
_SHARED: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "request.timeout.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)
_PRODUCER: Final = frozenset(
    {
        "acks",
        "batch.size",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        _TRANSACTION_TIMEOUT,
    }
)
_IGNORED: Final = frozenset(
    {
        "buffer.memory",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.ignore.keys",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Properties that tune Java's producer; the sink builds batches differently and ignores them."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    client: ClientProperties
    topic: str | None
    delivery: Delivery
    sink_name: str
    is_named: bool
    """Whether the user set sinkName."""
    staging_path: str | None
    memory_bytes: int
    """The most bytes that a task returns with its result; larger results go to a file."""
    codec: int
    level: int | None
    batch_bytes: int
    transaction_timeout_ms: int | None
    dead_letter_topic: str | None = None
    """The topic for dead letters that the source has staged for this sink."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Raises ConfigError, which names the option and the fix."""
        values = OptionValues(options)
        values.refuse_unknown(KNOWN, 'the sink of format("ruslo")')
        properties = values.client_properties()
        producer = OptionValues(_producer_properties(properties))
        topic = values.text("topic")
        problem = None if topic is None else topic_name_problem(topic)
        if problem is not None:
            raise ConfigError(f"topic={topic}: {problem}")
        delivery = cast(
            "Delivery", values.choice("delivery", ("exactly_once", "at_least_once"), "exactly_once")
        )
        name = values.text("sinkName")
        if name is not None and not _SINK_NAME.match(name):
            raise ConfigError(f"sinkName={name}: use up to 100 letters, digits, '.', '_' and '-'")
        codec = _codec(values, producer)
        timeout = values if _TRANSACTION_TIMEOUT in values else producer
        memory_bytes = values.size_bytes("stagingMemory", _MEMORY_BYTES)
        assert memory_bytes is not None, "stagingMemory has a default"
        return cls(
            _client(properties, producer),
            topic,
            delivery,
            name or DEFAULT_SINK_NAME,
            name is not None,
            values.text("stagingPath") or None,
            memory_bytes,
            codec,
            _level(codec, producer),
            producer.number("batch.size", _BATCH_BYTES, least=1),
            timeout.optional_number(_TRANSACTION_TIMEOUT),
            sink_topic(values, exactly_once=delivery == "exactly_once"),
        )


def _producer_properties(properties: Mapping[str, str]) -> dict[str, str]:
    known = _SHARED | _PRODUCER | _IGNORED
    for name in properties:
        if name == "transactional.id":
            raise ConfigError("kafka.transactional.id cannot be set: the sink derives it from sinkName")
        if name not in known and not is_security_setting(name):
            raise ConfigError(f"kafka.{name} is not a producer property. {nearest(name, known)}")
    if properties.get("acks", "all") not in ("all", "-1"):
        raise ConfigError(
            f"kafka.acks={properties['acks']}: the sink always waits for all in-sync replicas; remove it"
        )
    if properties.get("enable.idempotence", "true").lower() != "true":
        raise ConfigError("kafka.enable.idempotence=false: the sink is always idempotent; remove it")
    return {name: value for name, value in properties.items() if name in _PRODUCER}


def _client(properties: Mapping[str, str], producer: OptionValues) -> ClientProperties:
    shared = {
        name: value for name, value in properties.items() if name not in _PRODUCER and name not in _IGNORED
    }
    delivery_timeout_ms = producer.text("delivery.timeout.ms")
    if delivery_timeout_ms is not None:
        shared["default.api.timeout.ms"] = delivery_timeout_ms
    return parse_client_properties(shared)


def _codec(values: OptionValues, producer: OptionValues) -> int:
    name = values.choice("compression", _CODECS, producer.choice("compression.type", _CODECS, "none"))
    return _CODECS[name]


def _level(codec: int, producer: OptionValues) -> int | None:
    name = f"compression.{Codec(codec).name.lower()}.level"
    return producer.number(name, 0, least=-(1 << 17)) if name in producer else None
