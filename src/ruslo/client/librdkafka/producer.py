"""Producer: the settings of Kafka's Java producer, over librdkafka."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Self, TypeAlias

from ruslo.client.errors import BufferExhausted
from ruslo.client.librdkafka.buffer_memory import BufferMemory
from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.delivery import (
    CallbackReport,
    Delivery,
    DeliveryCallback,
    RecordMetadata,
    Report,
)
from ruslo.client.librdkafka.errors import as_kafka_error, translated
from ruslo.client.librdkafka.producer_transaction import ProducerTransaction, Transactions
from ruslo.client.librdkafka.topic_cache import TopicCache
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.tables import PRODUCER
from ruslo.client.settings.translation import producer_settings
from ruslo.client.type_variables import ProducedK, ProducedV
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

__all__ = ["Producer", "RecordMetadata"]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""A sequence may repeat a name."""
Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
"""Gets the topic, the serialized key and the number of partitions; returns a partition."""

_RECORD_OVERHEAD_BYTES = 82
"""The largest overhead of a record, if it is alone in its batch."""
_CALL_MAX_S = 0.1
"""The longest call into librdkafka: Python handles Ctrl-C and close between calls."""
_UNRAISED_FAILURES_MAX = 10_000
_log = logging.getLogger("ruslo.client")


class Producer(Generic[ProducedK, ProducedV]):
    """Sends records in the background; ``flush`` waits until every record is acknowledged or has failed.

    - ``send`` returns a future. It blocks up to ``max.block.ms`` while ``buffer.memory`` is full or the topic
      is unknown.
    - The next ``flush`` or ``close`` raises a failure whose future was not read, so none goes unnoticed.
    - Serializers are plain callables.
    - All methods are thread-safe; callbacks run in a thread of the producer.
    - A producer cannot be used after a fork: create one in each process.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_serializer: Callable[[ProducedK], bytes | str | None] | None = None,
        value_serializer: Callable[[ProducedV], bytes | str | None] | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        import confluent_kafka

        settings = producer_settings(config)
        self._client = LibrdkafkaClient(confluent_kafka.Producer, "producer", PRODUCER, settings.librdkafka)
        self._handle = self._client.handle
        self._their_exception = confluent_kafka.KafkaException
        self._max_block_ms = settings.max_block_ms
        self._max_request_size = settings.max_request_size
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._partitioner = RoundRobin() if settings.round_robin else partitioner
        self._memory = BufferMemory(settings.buffer_memory)
        self._record_size_max = min(settings.max_request_size, settings.buffer_memory)
        self._topics = TopicCache(
            self._client,
            max_block_ms=settings.max_block_ms,
            max_age_ms=settings.metadata_max_age_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self._transactions = Transactions(
            self._client,
            settings.max_block_ms,
            configured=settings.transactional,
            after_abort=self._forget_failures,
        )
        self._unseen: deque[Delivery] = deque(maxlen=_UNRAISED_FAILURES_MAX)
        self._unreported: deque[KafkaError] = deque(maxlen=_UNRAISED_FAILURES_MAX)
        self._stop = threading.Event()
        poller = threading.Thread(
            target=_run_callbacks, args=(self._handle, self._stop), name="ruslo-producer", daemon=True
        )
        poller.start()
        weakref.finalize(self, _warn_and_stop, self._stop, self._client, self._memory)

    def send(
        self,
        topic: str,
        value: ProducedV | None = None,
        *,
        key: ProducedK | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue a record; the future returns where it was stored, or raises its error."""
        delivery = Delivery()
        self.enqueue(delivery, topic, value, key, headers, partition, timestamp_ms)
        return delivery

    def produce(
        self,
        topic: str,
        value: ProducedV | None = None,
        *,
        key: ProducedK | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """As ``send``, with a callback instead of a future."""
        report = CallbackReport(on_delivery)
        self.enqueue(report, topic, value, key, headers, partition, timestamp_ms)

    def send_many(self, topic: str, values: Iterable[ProducedV]) -> list[Delivery]:
        """Queue a record per value; returns their futures in order."""
        return [self.send(topic, value) for value in values]

    def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions; waits up to ``max.block.ms`` for the topic to exist, as ``send`` does."""
        self._client.check_usable()
        return list(range(self._topics.wait_for(topic, None, self._deadline())))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record is acknowledged or has failed, and raise failures that were not read."""
        self._client.check_usable()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._memory.records:
            left_s = _CALL_MAX_S if deadline is None else min(_CALL_MAX_S, deadline - time.monotonic())
            if left_s <= 0:
                expired = f"{self._memory.records} records were not acknowledged within {timeout_s} s"
                raise RequestTimedOut(expired + self._client.last_error_suffix())
            with translated():
                self._handle.flush(left_s)
            # The last callbacks may still run in the producer's thread.
            self._memory.wait_empty(min(left_s, 0.01))
        self._raise_unseen()

    def transaction(self) -> ProducerTransaction:
        """``with producer.transaction(): …`` commits at the end, or aborts if an exception leaves it."""
        return ProducerTransaction(self._transactions)

    @property
    def transactions(self) -> Transactions:
        """The single steps of a transaction, as in Java: init, begin, send_offsets, commit, abort."""
        return self._transactions

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then release everything; records that are not acknowledged in time are dropped and fail."""
        if self._client.unusable is not None:
            return
        try:
            self.flush(timeout_s)
        finally:
            self._discard()

    def __len__(self) -> int:
        """The number of records that are not acknowledged yet."""
        return self._memory.records

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        elif self._client.unusable is None:
            self._discard()

    def enqueue(
        self,
        report: Report,
        topic: str,
        value: ProducedV | None,
        key: ProducedK | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        *,
        blocking: bool = True,
    ) -> bool:
        """Queue a record; returns False if that would block and ``blocking`` is False."""
        if self._client.unusable is not None:
            self._client.check_usable()
        memory = self._memory
        key_bytes = key if key.__class__ is bytes else _serialized("key", key, self._serialize_key)
        value_bytes = (
            value if value.__class__ is bytes else _serialized("value", value, self._serialize_value)
        )
        if isinstance(headers, Mapping):
            headers = list(headers.items())
        size = _size(key_bytes, value_bytes, headers)
        if size > self._record_size_max:
            self._raise_too_large(topic, size)
        deadline: float | None = None
        count = None
        if not self._topics.has(topic, partition) or (
            self._partitioner is not None and (count := self._topics.known(topic)) is None
        ):
            if not blocking:
                return False
            deadline = self._deadline()
            count = self._topics.wait_for(topic, partition, deadline)
        if not memory.try_reserve(size):
            if not blocking:
                return False
            if not memory.reserve(size, deadline or self._deadline()):
                raise BufferExhausted(
                    f"the producer's buffer of {memory.total_bytes} bytes (buffer.memory) stayed full "
                    f"for {self._max_block_ms} ms (max.block.ms){self._client.last_error_suffix()}"
                )

        report.accepted_by(self, size)
        try:
            if partition is None and self._partitioner is not None and count is not None:
                partition = self._partitioner(topic, key_bytes, count)
            self._handle.produce(
                topic,
                value_bytes,
                key_bytes,
                -1 if partition is None else partition,
                on_delivery=report,
                timestamp=0 if timestamp_ms is None else timestamp_ms,
                headers=list(headers) or None,
            )
        except BaseException as error:
            memory.release(size)
            if isinstance(error, self._their_exception):
                inner = as_kafka_error(error.args[0])
                where = topic if partition is None else f"{topic}-{partition}"
                raise KafkaError(inner.code, f"{where}: {inner.message}") from error
            if isinstance(error, BufferError):
                message = "librdkafka's queue is full: remove the queue.buffering.* settings"
                raise BufferExhausted(message) from None
            raise
        return True

    def on_report(self, report: Report, size: int, error: confluent_kafka.KafkaError | None) -> None:
        """Called when a record is acknowledged or has failed, by the thread that runs callbacks."""
        code = ErrorCode.NONE if error is None else as_kafka_error(error).code
        # Records that an abort or close dropped are not failures.
        if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
            if isinstance(report, Delivery):
                self._unseen.append(report)
            elif isinstance(report, CallbackReport) and report.failure is not None:
                self._unreported.append(report.failure)
            self._topics.invalidate_after(code)
        self._memory.release(size)

    def _deadline(self) -> float:
        return time.monotonic() + self._max_block_ms / 1000

    def _raise_too_large(self, topic: str, size: int) -> None:
        limit = "max.request.size" if size > self._max_request_size else "buffer.memory"
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{topic}: the record has {size} bytes, more than {limit} ({self._record_size_max}): "
            f"raise {limit}, or send a smaller record",
        )

    def _raise_unseen(self) -> None:
        failures = []
        while self._unreported:
            failures.append(self._unreported.popleft())
        while self._unseen:
            delivery = self._unseen.popleft()
            if not delivery.seen and (failure := delivery.exception()) is not None:
                failures.append(failure)
        if failures:
            first = failures[0]
            message = f"{len(failures)} records were not stored; first error: {first.message}"
            raise KafkaError(first.code, message)

    def _forget_failures(self) -> None:
        self._unseen.clear()
        self._unreported.clear()

    def _discard(self) -> None:
        self._client.unusable = "the producer is closed"
        self._handle.purge()
        # Run the callbacks of dropped records, so that every future ends. librdkafka raises fatal errors here
        # again.
        with contextlib.suppress(self._their_exception):
            self._handle.flush(1.0)
        self._stop.set()


class RoundRobin:
    """Kafka's RoundRobinPartitioner: cycles through the partitions and ignores keys."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, partitions: int) -> int:
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        return number % partitions


def _serialized(
    part: str, given: object, serialize: Callable[..., bytes | str | None] | None
) -> bytes | None:
    data = given if serialize is None or given is None else serialize(given)
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    raise ConfigError(
        f"the {part} is {type(data).__name__}, not bytes or str: pass {part}_serializer= to the producer"
    )


def _size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    size = _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        try:
            for name, data in headers:
                # encode() rejects lone surrogates, which would make confluent-kafka crash the process.
                size += len(name if name.isascii() else name.encode()) + (len(data) if data else 0) + 10
        except UnicodeEncodeError:
            raise
        except (TypeError, ValueError, AttributeError):
            raise ConfigError(
                f"the headers {repr(headers)[:100]} are not pairs of a name and bytes: pass a dict or a list "
                "such as [('trace', b'7')], with None for a header without a value"
            ) from None
    return size


def _run_callbacks(handle: confluent_kafka.Producer, stop: threading.Event) -> None:
    """Run callbacks as they become due. It does not reference the producer, which may be collected."""
    from confluent_kafka import KafkaException

    while not stop.is_set():
        try:
            handle.poll(_CALL_MAX_S)
        except KafkaException:
            # A fatal error, such as fencing, which every call raises: the caller sees it, not this thread.
            stop.wait(_CALL_MAX_S)
        except Exception:
            _log.exception("producer callback failed")


def _warn_and_stop(
    stop: threading.Event, client: LibrdkafkaClient[confluent_kafka.Producer], memory: BufferMemory
) -> None:
    if client.unusable is None and memory.records:
        _log.warning("producer collected with %d unsent records: call close() or use 'with'", memory.records)
    stop.set()
