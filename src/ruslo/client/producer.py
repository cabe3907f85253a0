"""A producer with Kafka's own settings, over librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from ruslo.client.errors import RequestTimedOut
from ruslo.client.librdkafka import ConfigValue, producer_settings, take_int
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError

if TYPE_CHECKING:
    import confluent_kafka


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 with acks=0: nobody told us."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    latency_s: float


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, RecordMetadata], None]


class Producer:
    """Sends records in the background; ``flush`` waits until every one of them is acknowledged or failed.

    A failed record is reported to its ``on_delivery``; failures of records that were sent without one are
    raised by the next ``flush`` (or ``close``), so that none goes unnoticed.

    Besides librdkafka's settings Kafka's ``max.block.ms`` is honoured: how long ``send`` waits for room.
    """

    def __init__(self, config: Mapping[str, ConfigValue]) -> None:
        import confluent_kafka

        settings = producer_settings(config)
        self._max_block_ms = take_int(settings, "max.block.ms", 60_000)
        self._refusal = confluent_kafka.KafkaException
        self._unreported: KafkaError | None = None
        self._unreported_count = 0
        try:
            self._producer = confluent_kafka.Producer(settings)
        except (confluent_kafka.KafkaException, ValueError) as error:
            raise ConfigError(_text(error)) from error

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue one record; blocks up to ``max.block.ms`` while the buffer is full."""
        callback = self._note_failure if on_delivery is None else _adapt(on_delivery)
        deadline: float | None = None
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    -1 if partition is None else partition,
                    on_delivery=callback,
                    timestamp=0 if timestamp_ms is None else timestamp_ms,
                    headers=list(headers) or None,
                )
                break
            except self._refusal as error:
                inner = as_kafka_error(error.args[0])
                where = topic if partition is None else f"{topic}-{partition}"
                raise KafkaError(inner.code, f"{where}: {inner.message}") from error
            except BufferError:
                now = time.monotonic()
                deadline = deadline or now + self._max_block_ms / 1000
                if now >= deadline:
                    raise RequestTimedOut(
                        f"the producer's buffer stayed full for {self._max_block_ms} ms (max.block.ms)"
                    ) from None
                self._producer.poll(min(0.1, deadline - now))
        self._producer.poll(0)

    def poll(self, timeout_s: float = 0) -> int:
        """Run the callbacks that are due; returns how many there were."""
        return self._producer.poll(timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        left = self._producer.flush(-1 if timeout_s is None else timeout_s)
        if left:
            raise RequestTimedOut(f"{left} records were not acknowledged within {timeout_s} s")
        if self._unreported is not None:
            error, count = self._unreported, self._unreported_count
            self._unreported, self._unreported_count = None, 0
            raise KafkaError(
                error.code, f"{count} records were not stored; the first because: {error.message}"
            )

    def close(self, timeout_s: float | None = None) -> None:
        try:
            self.flush(timeout_s)
        finally:
            self._producer.purge()

    def __len__(self) -> int:
        """Records that are not acknowledged yet."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._producer.purge()

    def _note_failure(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is not None:
            self._unreported = self._unreported or as_kafka_error(error)
            self._unreported_count += 1


def _adapt(
    on_delivery: DeliveryCallback,
) -> Callable[[confluent_kafka.KafkaError | None, confluent_kafka.Message], None]:
    def deliver(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        offset = message.offset()
        on_delivery(
            None if error is None else as_kafka_error(error),
            RecordMetadata(
                message.topic() or "",
                -1 if (partition := message.partition()) is None else partition,
                -1 if offset is None or offset < 0 else offset,
                message.timestamp()[1],
                message.latency() or 0.0,
            ),
        )

    return deliver


def as_kafka_error(error: confluent_kafka.KafkaError) -> KafkaError:
    """librdkafka's own codes lie below -1; they are time-outs or troubles with the network for the caller."""
    import confluent_kafka

    code = error.code()
    if code in ErrorCode._value2member_map_:
        return KafkaError(ErrorCode(code), error.str())
    if code in (confluent_kafka.KafkaError._TIMED_OUT, confluent_kafka.KafkaError._MSG_TIMED_OUT):
        return RequestTimedOut(error.str())
    if code in (confluent_kafka.KafkaError._UNKNOWN_TOPIC, confluent_kafka.KafkaError._UNKNOWN_PARTITION):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error.str())
    if code in (confluent_kafka.KafkaError._TRANSPORT, confluent_kafka.KafkaError._ALL_BROKERS_DOWN):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, error.str())
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error.str()} ({error.name()})")


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
