"""A consumer with Kafka's own settings, over librdkafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from ruslo.client.librdkafka import ConfigValue, consumer_settings, take_int
from ruslo.client.producer import as_kafka_error
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

START = -2
"""As an offset: the oldest record that is still there."""
END = -1
"""As an offset: what comes next."""

_NO_GROUP = "ruslo-without-group"
_RETRY_PAUSE_S = 0.05

T = TypeVar("T")


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class PartitionEnd(NamedTuple):
    """With ``enable.partition.eof``: every record of the partition up to ``offset`` has been given out."""

    topic: str
    partition: int
    offset: int


class Consumer:
    """Reads partitions that it was assigned by hand, or as a member of a group after ``subscribe``.

    Without ``group.id`` nothing is committed and no group is touched.
    """

    def __init__(self, config: Mapping[str, ConfigValue]) -> None:
        import confluent_kafka

        settings = consumer_settings(config)
        self._max_poll_records = take_int(settings, "max.poll.records", 500)
        self._has_group = bool(settings.get("group.id"))
        if not self._has_group:
            # librdkafka insists on a name even where no group takes part.
            settings |= {
                "group.id": _NO_GROUP,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
            }
        try:
            self._consumer = confluent_kafka.Consumer(settings)
        except (confluent_kafka.KafkaException, ValueError) as error:
            raise ConfigError(str(error)) from error

    def partitions_for(self, topic: str, timeout_s: float = 10) -> list[int]:
        """The topic's partitions; raises UNKNOWN_TOPIC_OR_PARTITION when it does not exist."""
        with _translated():
            found = self._consumer.list_topics(topic, timeout_s).topics[topic]
        if found.error is not None:
            raise KafkaError(as_kafka_error(found.error).code, f"topic {topic!r} does not exist")
        return sorted(found.partitions)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (START and END are offsets too)."""
        with _translated():
            self._consumer.assign(_partitions(positions))

    def subscribe(self, topics: Sequence[str]) -> None:
        if not self._has_group:
            raise ConfigError("subscribe needs a group: set group.id, or assign partitions by hand")
        with _translated():
            self._consumer.subscribe(list(topics))

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition) for p in self._consumer.assignment()]

    def poll(self, timeout_s: float = 1.0) -> list[ConsumedRecord | PartitionEnd]:
        """Up to ``max.poll.records`` records; empty when none came in time."""
        from confluent_kafka import KafkaError as LibrdkafkaError

        events: list[ConsumedRecord | PartitionEnd] = []
        with _translated():
            first = self._consumer.poll(timeout_s)
            if first is None:
                return events
            # consume() waits until it has all it was asked for, so it only takes what has arrived already.
            more = self._consumer.consume(self._max_poll_records - 1, 0) if self._max_poll_records > 1 else []
        for message in [first, *more]:
            error = message.error()
            if error is None:
                events.append(_record(message))
            elif error.code() == LibrdkafkaError._PARTITION_EOF:
                events.append(PartitionEnd(*_place(message)))
            elif error.code() not in (LibrdkafkaError._ALL_BROKERS_DOWN, LibrdkafkaError._TRANSPORT):
                # Lost connections are librdkafka's to restore; everything else is the caller's to know.
                raise as_kafka_error(error)
        return events

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with _translated():
            self._consumer.seek(_partitions({partition: offset})[0])

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        with _translated():
            self._consumer.pause(_partitions(dict.fromkeys(partitions, END)))

    def offset_range(self, partition: TopicPartition, timeout_s: float = 10) -> tuple[int, int]:
        """The oldest offset that is still there and the one that the next record will get."""
        place = _partitions({partition: END})[0]
        return _retrying(lambda: self._consumer.get_watermark_offsets(place, timeout_s), timeout_s)

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float = 10
    ) -> dict[TopicPartition, int]:
        """Per partition the first offset whose record is not older than the time; END where there is none."""

        def ask() -> dict[TopicPartition, int]:
            found = self._consumer.offsets_for_times(_partitions(times_ms), timeout_s)
            for place in found:
                if place.error is not None:
                    raise as_kafka_error(place.error)
            return {TopicPartition(place.topic, place.partition): place.offset for place in found}

        return _retrying(ask, timeout_s)

    def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Store the group's offsets and wait for the answer; without positions, of all that poll gave out."""
        if not self._has_group:
            raise ConfigError("commit needs a group: set group.id")
        with _translated():
            if positions is None:
                self._consumer.commit(asynchronous=False)
            else:
                self._consumer.commit(offsets=_partitions(positions), asynchronous=False)

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _partitions(positions: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    from confluent_kafka import TopicPartition as Place

    return [Place(partition.topic, partition.partition, offset) for partition, offset in positions.items()]


def _record(message: confluent_kafka.Message) -> ConsumedRecord:
    topic, partition, offset = _place(message)
    headers = message.headers()
    return ConsumedRecord(
        topic,
        partition,
        offset,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(headers) if headers else (),  # type: ignore[arg-type]  # a list of pairs when it was received
    )


def _place(message: confluent_kafka.Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "librdkafka gave a record without a topic"
    assert partition is not None, "librdkafka gave a record without a partition"
    assert offset is not None, "librdkafka gave a record without an offset"
    return topic, partition, offset


def _retrying(ask: Callable[[], T], timeout_s: float) -> T:
    """Ask until the answer is no passing fault: a new topic's leader may not know yet that it leads."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with _translated():
                return ask()
        except KafkaError as error:
            passing = error.code.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not passing or time.monotonic() + _RETRY_PAUSE_S >= deadline:
                raise
        time.sleep(_RETRY_PAUSE_S)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise as_kafka_error(error.args[0]) from error
