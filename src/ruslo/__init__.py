"""Ruslo: an event-streaming platform that speaks the Kafka protocol.

This package exports the API of producers, consumers and share consumers; ``ruslo.testing`` has brokers for
tests. Each name is imported on first use, so ``import ruslo`` is cheap.
"""

from __future__ import annotations

# Like typing.TYPE_CHECKING, without the cost of importing typing.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ruslo.client.errors import (
        BufferExhausted,
        ClientUnusable,
        ProducerFenced,
        TransactionAborted,
        TransactionLost,
        UndecodableRecord,
    )
    from ruslo.client.librdkafka.async_consumer import AsyncConsumer
    from ruslo.client.librdkafka.async_producer import AsyncProducer
    from ruslo.client.librdkafka.consumed_record import ConsumedRecord, PartitionEnd
    from ruslo.client.librdkafka.consumer import END, START, Consumer
    from ruslo.client.librdkafka.delivery import Delivery, RecordMetadata
    from ruslo.client.librdkafka.producer import Producer
    from ruslo.client.share.async_share_consumer import AsyncShareConsumer
    from ruslo.client.share.share_consumer import ShareConsumer
    from ruslo.client.share.share_record import ShareRecord
    from ruslo.model.errors import ConfigError, ErrorCode, KafkaError, RusloError
    from ruslo.model.topics import TopicPartition
    from ruslo.net.errors import BrokerUnreachable, RequestTimedOut

_HOMES = {
    "ruslo.client.librdkafka.async_consumer": ("AsyncConsumer",),
    "ruslo.client.librdkafka.async_producer": ("AsyncProducer",),
    "ruslo.client.librdkafka.consumed_record": ("ConsumedRecord", "PartitionEnd"),
    "ruslo.client.librdkafka.consumer": ("END", "START", "Consumer"),
    "ruslo.client.librdkafka.delivery": ("Delivery", "RecordMetadata"),
    "ruslo.client.errors": (
        "BufferExhausted",
        "ClientUnusable",
        "ProducerFenced",
        "TransactionAborted",
        "TransactionLost",
        "UndecodableRecord",
    ),
    "ruslo.client.librdkafka.producer": ("Producer",),
    "ruslo.client.share.async_share_consumer": ("AsyncShareConsumer",),
    "ruslo.client.share.share_consumer": ("ShareConsumer",),
    "ruslo.client.share.share_record": ("ShareRecord",),
    "ruslo.model.errors": ("ConfigError", "ErrorCode", "KafkaError", "RusloError"),
    "ruslo.model.topics": ("TopicPartition",),
    "ruslo.net.errors": ("BrokerUnreachable", "RequestTimedOut"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "END",
    "START",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "BrokerUnreachable",
    "BufferExhausted",
    "ClientUnusable",
    "ConfigError",
    "ConsumedRecord",
    "Consumer",
    "Delivery",
    "ErrorCode",
    "KafkaError",
    "PartitionEnd",
    "Producer",
    "ProducerFenced",
    "RecordMetadata",
    "RequestTimedOut",
    "RusloError",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "TransactionAborted",
    "TransactionLost",
    "UndecodableRecord",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
