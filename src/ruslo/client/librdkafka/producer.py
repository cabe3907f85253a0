"""A producer with Kafka's own settings, over librdkafka."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
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
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | str | None)
    V = TypeVar("V", default=bytes | str | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["Producer", "RecordMetadata"]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""A name may come more than once in a sequence."""
Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
"""From topic, serialized key and number of partitions to a partition."""

_RECORD_OVERHEAD_BYTES = 82
"""What a record costs beside its parts at most, if it is alone in its batch."""
_SLICE_S = 0.1
"""Waits inside librdkafka are cut into such slices: between them Python hears Ctrl-C and close."""
_FAILURES_KEPT = 10_000
_log = logging.getLogger("ruslo.client")


class Producer(Generic[K, V]):
    """Sends records in the background; ``flush`` waits until every one of them is acknowledged or failed.

    ``send`` blocks up to ``max.block.ms`` while ``buffer.memory`` is full or the topic is unknown, and
    returns a future. A failure that nobody asked for is raised by the next ``flush`` (or ``close``), so that
    none goes unnoticed. Serializers are plain callables. All methods may be called by any thread; callbacks
    run in a thread of the producer. A producer does not survive a fork: make one in each process.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_serializer: Callable[[K], bytes | str | None] | None = None,
        value_serializer: Callable[[V], bytes | str | None] | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        import confluent_kafka

        settings = producer_settings(config)
        self._client = LibrdkafkaClient(confluent_kafka.Producer, "producer", PRODUCER, settings.librdkafka)
        self._handle = self._client.handle
        self._refusal = confluent_kafka.KafkaException
        self._max_block_ms = settings.max_block_ms
        self._max_request_size = settings.max_request_size
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._partitioner = RoundRobin() if settings.round_robin else partitioner
        self._memory = BufferMemory(settings.buffer_memory)
        self._largest_record = min(settings.max_request_size, settings.buffer_memory)
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
        self._unseen: deque[Delivery] = deque(maxlen=_FAILURES_KEPT)
        self._unreported: deque[KafkaError] = deque(maxlen=_FAILURES_KEPT)
        self._stop = threading.Event()
        server = threading.Thread(
            target=_serve, args=(self._handle, self._stop), name="ruslo-producer", daemon=True
        )
        server.start()
        weakref.finalize(self, _end, self._stop, self._client, self._memory)

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue one record; the future tells where it was stored, or why not."""
        delivery = Delivery()
        self.hand_over(delivery, topic, value, key, headers, partition, timestamp_ms)
        return delivery

    def produce(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """As ``send`` with a callback in place of a future."""
        report = CallbackReport(on_delivery)
        self.hand_over(report, topic, value, key, headers, partition, timestamp_ms)

    def send_many(self, topic: str, values: Iterable[V]) -> list[Delivery]:
        """A future for each value, in their order."""
        return [self.send(topic, value) for value in values]

    def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions; waits up to ``max.block.ms`` for it to exist, as ``send`` does."""
        self._client.check_usable()
        return list(range(self._topics.wait_for(topic, None, self._deadline())))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record is acknowledged or failed, and raise failures that nobody has seen."""
        self._client.check_usable()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._memory.records:
            left_s = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
            if left_s <= 0:
                late = f"{self._memory.records} records were not acknowledged within {timeout_s} s"
                raise RequestTimedOut(late + self._client.last_error_suffix())
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
        """The steps of a transaction one by one, as in Java: init, begin, send_offsets, commit, abort."""
        return self._transactions

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then let go; what is not acknowledged in time is dropped and reported as failed."""
        if self._client.unusable is not None:
            return
        try:
            self.flush(timeout_s)
        finally:
            self._discard()

    def __len__(self) -> int:
        """Records that are not acknowledged yet."""
        return self._memory.records

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._client.unusable is None:
            self._discard()

    def hand_over(
        self,
        report: Report,
        topic: str,
        value: V | None,
        key: K | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        *,
        blocking: bool = True,
    ) -> bool:
        """Take a record; unless ``blocking``, say False where that would need a wait."""
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
        if size > self._largest_record:
            self._refuse_size(topic, size)
        deadline: float | None = None
        count = None
        if not self._topics.has(topic, partition) or (
            self._partitioner is not None and (count := self._topics.known(topic)) is None
        ):
            if not blocking:
                return False
            deadline = self._deadline()
            count = self._topics.wait_for(topic, partition, deadline)
        if not memory.try_take(size):
            if not blocking:
                return False
            if not memory.take(size, deadline or self._deadline()):
                raise BufferExhausted(
                    f"the producer's buffer of {memory.total_bytes} bytes (buffer.memory) stayed full "
                    f"for {self._max_block_ms} ms (max.block.ms){self._client.last_error_suffix()}"
                )

        report.taken(self, size)
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
            memory.give_back(size)
            if isinstance(error, self._refusal):
                inner = as_kafka_error(error.args[0])
                where = topic if partition is None else f"{topic}-{partition}"
                raise KafkaError(inner.code, f"{where}: {inner.message}") from error
            if isinstance(error, BufferError):
                message = "librdkafka's own queue is full: take out the queue.buffering.* settings"
                raise BufferExhausted(message) from None
            raise
        return True

    def settled(self, report: Report, size: int, error: confluent_kafka.KafkaError | None) -> None:
        """A record is done with; called by whichever thread runs callbacks."""
        code = ErrorCode.NONE if error is None else as_kafka_error(error).code
        # What an abort or close has dropped was dropped on purpose.
        if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
            if isinstance(report, Delivery):
                self._unseen.append(report)
            elif isinstance(report, CallbackReport) and report.failure is not None:
                self._unreported.append(report.failure)
            self._topics.doubt(code)
        self._memory.give_back(size)

    def _deadline(self) -> float:
        return time.monotonic() + self._max_block_ms / 1000

    def _refuse_size(self, topic: str, size: int) -> None:
        limit = "max.request.size" if size > self._max_request_size else "buffer.memory"
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{topic}: the record needs {size} bytes, {limit} is {self._largest_record}",
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
            message = f"{len(failures)} records were not stored; the first because: {first.message}"
            raise KafkaError(first.code, message)

    def _forget_failures(self) -> None:
        self._unseen.clear()
        self._unreported.clear()

    def _discard(self) -> None:
        self._client.unusable = "the producer is closed"
        self._handle.purge()
        # Runs the callbacks of what was thrown away, so that every future ends; of a producer that failed for
        # good, librdkafka says so once more.
        with contextlib.suppress(self._refusal):
            self._handle.flush(1.0)
        self._stop.set()


class RoundRobin:
    """Kafka's RoundRobinPartitioner: one partition after another, whatever the keys."""

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
                # To encode it refuses what UTF-8 cannot write (lone surrogates): confluent-kafka crashes the
                # process.
                size += len(name if name.isascii() else name.encode()) + (len(data) if data else 0) + 10
        except UnicodeEncodeError:
            raise
        except (TypeError, ValueError, AttributeError):
            raise ConfigError(
                f"the headers {repr(headers)[:100]} are not pairs of a name and bytes: pass a dict or a list "
                "such as [('trace', b'7')], with None for a header without a value"
            ) from None
    return size


def _serve(handle: confluent_kafka.Producer, stop: threading.Event) -> None:
    """Runs callbacks as they come due. Holds no producer, so that one nobody holds can go."""
    from confluent_kafka import KafkaException

    while not stop.is_set():
        try:
            handle.poll(_SLICE_S)
        except KafkaException:
            # It has failed for good (fenced, say) and every call tells whoever makes it: here nobody listens.
            stop.wait(_SLICE_S)
        except Exception:
            _log.exception("a callback of the producer failed")


def _end(
    stop: threading.Event, client: LibrdkafkaClient[confluent_kafka.Producer], memory: BufferMemory
) -> None:
    if client.unusable is None and memory.records:
        _log.warning("a producer went away with %d records unsent: close it, or use 'with'", memory.records)
    stop.set()
