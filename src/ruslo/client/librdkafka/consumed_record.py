"""Consumed records, and how they are made from librdkafka's messages."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias

from ruslo.client.errors import UndecodableRecord
from ruslo.client.type_variables import K_co, V_co
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

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
    """Every record of the partition before ``offset`` was returned (with ``enable.partition.eof``)."""

    topic: str
    partition: int
    offset: int


def position_of(message: confluent_kafka.Message) -> tuple[TopicPartition, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "librdkafka returned a record without a topic"
    assert partition is not None, "librdkafka returned a record without a partition"
    assert offset is not None, "librdkafka returned a record without an offset"
    return TopicPartition(topic, partition), offset


def partition_of(message: confluent_kafka.Message) -> TopicPartition:
    """The partition of a record or an error; some errors do not have one."""
    return TopicPartition(message.topic() or "", message.partition() or 0)


class RecordReader(Generic[K_co, V_co]):
    """Converts messages to records. Deserializers also get None, as in Java."""

    def __init__(self, key: Deserializer[K_co] | None, value: Deserializer[V_co] | None) -> None:
        self._parts: tuple[tuple[str, Callable[..., object] | None], ...] = (("key", key), ("value", value))
        self._deserializes = key is not None or value is not None

    def read(self, message: confluent_kafka.Message) -> ConsumedRecord[K_co, V_co]:
        (topic, partition), offset = position_of(message)
        key: object = message.key()
        value: object = message.value()
        if self._deserializes:
            key, value = self._decoded(message)
        return ConsumedRecord(
            topic,
            partition,
            offset,
            message.timestamp()[1],
            key,  # type: ignore[arg-type]  # without a deserializer K is bytes | None
            value,  # type: ignore[arg-type]
            _headers(message),
        )

    def _decoded(self, message: confluent_kafka.Message) -> list[object]:
        decoded: list[object] = []
        for (name, deserialize), data in zip(self._parts, (message.key(), message.value()), strict=True):
            try:
                decoded.append(data if deserialize is None else deserialize(data))
            except Exception as error:
                raise UndecodableRecord(name, *position_of(message), error) from error
        return decoded


# CPython's specialized method calls do not check for the exception that headers() may leave; this does.
_call_headers = operator.methodcaller("headers")


def _headers(message: confluent_kafka.Message) -> tuple[tuple[str, bytes | None], ...]:
    """Raises UndecodableRecord for names that are not UTF-8, which Kafka allows.

    confluent-kafka then sets an exception but also keeps a list with null entries, and reading that list
    crashes the process. So the exception replaces the list.
    """
    try:
        headers = _call_headers(message)
    except (UnicodeDecodeError, SystemError) as error:
        headers = error.__cause__ or error
        message.set_headers(headers)  # type: ignore[arg-type]  # any object is stored and returned
    if isinstance(headers, Exception):
        raise UndecodableRecord("header names", *position_of(message), headers)
    return tuple(headers) if headers else ()
