"""What a consumer gives out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias

from ruslo.client.errors import UndecodableRecord
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka
    from typing_extensions import TypeVar

    K_co = TypeVar("K_co", default=bytes | None, covariant=True)
    V_co = TypeVar("V_co", default=bytes | None, covariant=True)
else:
    from typing import TypeVar

    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)

Deserializer: TypeAlias = Callable[[bytes | None], V_co]


class ConsumedRecord(NamedTuple, Generic[K_co, V_co]):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K_co
    value: V_co
    headers: tuple[tuple[str, bytes | None], ...]


class PartitionEnd(NamedTuple):
    """With ``enable.partition.eof``: every record of the partition up to ``offset`` has been given out."""

    topic: str
    partition: int
    offset: int


def place_of(message: confluent_kafka.Message) -> tuple[TopicPartition, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "librdkafka gave a record without a topic"
    assert partition is not None, "librdkafka gave a record without a partition"
    assert offset is not None, "librdkafka gave a record without an offset"
    return TopicPartition(topic, partition), offset


def partition_of(message: confluent_kafka.Message) -> TopicPartition:
    """Also of what is no record; some errors belong to no partition."""
    return TopicPartition(message.topic() or "", message.partition() or 0)


class RecordReader(Generic[K_co, V_co]):
    """Makes records of messages; None of either part goes through its deserializer too, as in Java."""

    def __init__(self, key: Deserializer[K_co] | None, value: Deserializer[V_co] | None) -> None:
        self._parts: tuple[tuple[str, Callable[..., object] | None], ...] = (("key", key), ("value", value))
        self._deserializes = key is not None or value is not None

    def read(self, message: confluent_kafka.Message) -> ConsumedRecord[K_co, V_co]:
        (topic, partition), offset = place_of(message)
        key: object = message.key()
        value: object = message.value()
        if self._deserializes:
            key, value = self._decoded(message)
        return ConsumedRecord(
            topic,
            partition,
            offset,
            message.timestamp()[1],
            key,  # type: ignore[arg-type]  # bytes without a deserializer, which is what K means then
            value,  # type: ignore[arg-type]
            _headers(message),
        )

    def _decoded(self, message: confluent_kafka.Message) -> list[object]:
        decoded: list[object] = []
        for (name, deserialize), data in zip(self._parts, (message.key(), message.value()), strict=True):
            try:
                decoded.append(data if deserialize is None else deserialize(data))
            except Exception as error:
                raise UndecodableRecord(name, *place_of(message), error) from error
        return decoded


# CPython calls methods it has seen often without a look at the exception they may leave; this call looks.
_ask_for_headers = operator.methodcaller("headers")


def _headers(message: confluent_kafka.Message) -> tuple[tuple[str, bytes | None], ...]:
    """Raises UndecodableRecord for names that are not UTF-8, which Kafka allows.

    confluent-kafka makes a list with holes of them, beside an exception, and keeps it: whoever looks into it
    crashes the process. So the exception takes its place.
    """
    try:
        headers = _ask_for_headers(message)
    except (UnicodeDecodeError, SystemError) as error:
        headers = error.__cause__ or error
        message.set_headers(headers)  # type: ignore[arg-type]  # any object goes in and comes out again
    if isinstance(headers, Exception):
        raise UndecodableRecord("header names", *place_of(message), headers)
    return tuple(headers) if headers else ()
