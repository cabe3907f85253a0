"""Delivery reports of produced records.

librdkafka reports each record to one object. Closures would be a dozen objects per record, and with a full
buffer the garbage collector would take longer than the sending.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.model.errors import KafkaError

if TYPE_CHECKING:
    import confluent_kafka

_log = logging.getLogger("ruslo.client")
_rare = threading.Lock()
"""Guards what few deliveries have: a waiting thread, callbacks."""


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 with acks=0: brokers do not respond."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    latency_s: float


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, RecordMetadata], None]


class Report(ABC):
    """librdkafka calls a report when its record is acknowledged or has failed."""

    __slots__ = ("_owner", "_size")

    def accepted_by(self, owner: ReportOwner, size: int) -> None:
        """The owner has reserved the record's memory; the report tells it when to release it."""
        self._owner = owner
        self._size = size

    def __call__(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        try:
            self.complete(None if error is None else as_kafka_error(error), metadata_of(message))
        finally:
            self._owner.on_report(self, self._size, error)

    @abstractmethod
    def complete(self, failure: KafkaError | None, metadata: RecordMetadata) -> None: ...


class ReportOwner(Protocol):
    """The producer of a record."""

    def on_report(self, report: Report, size: int, error: confluent_kafka.KafkaError | None) -> None: ...


class CallbackReport(Report):
    """Calls the user's callback; without one, ``flush`` raises ``failure``."""

    __slots__ = ("_on_delivery", "failure")

    def __init__(self, on_delivery: DeliveryCallback | None) -> None:
        self._on_delivery = on_delivery
        self.failure: KafkaError | None = None

    def complete(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        if self._on_delivery is None:
            self.failure = failure
            return
        try:
            self._on_delivery(failure, metadata)
        except Exception:
            _log.exception("on_delivery callback failed for a record of topic %s", metadata.topic)


class Delivery(Report):
    """A future that is done when the record is acknowledged or has failed. It cannot be cancelled.

    ``concurrent.futures.Future`` has a lock each and costs ten times as much; ``as_future`` returns one.
    """

    __slots__ = ("_callbacks", "_event", "_failure", "_metadata", "seen")

    def __init__(self) -> None:
        self.seen = False
        """Whether the caller has requested the outcome; ``flush`` raises failures that were not seen."""
        self._metadata: RecordMetadata | None = None
        self._failure: KafkaError | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[Delivery], None]] | None = None

    def done(self) -> bool:
        return self._metadata is not None

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Where the record was stored; raises its error, or TimeoutError after ``timeout_s``."""
        failure = self.exception(timeout_s)
        if failure is not None:
            raise failure
        assert self._metadata is not None, "the delivery is done"
        return self._metadata

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        """The error of the record, or None; raises TimeoutError after ``timeout_s``."""
        self.seen = True
        if self._metadata is None:
            with _rare:
                self._event = event = self._event or threading.Event()
            # If complete() ran in between it did not see the event, but this check sees the result.
            if self._metadata is None and not event.wait(timeout_s):
                raise TimeoutError(f"the record was not acknowledged within {timeout_s} s")
        return self._failure

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call ``callback`` once, from the producer's thread, or at once if the delivery is done."""
        self.seen = True
        with _rare:
            self._callbacks = [*(self._callbacks or ()), callback]
        if self._metadata is not None:
            self._run_callbacks()

    def as_future(self) -> Future[RecordMetadata]:
        """For concurrent.futures.wait and asyncio.wrap_future."""
        future: Future[RecordMetadata] = Future()
        future.set_running_or_notify_cancel()

        def pass_on(delivery: Delivery) -> None:
            failure = delivery.exception()
            if failure is None:
                future.set_result(delivery.result())
            else:
                future.set_exception(failure)

        self.add_done_callback(pass_on)
        return future

    def complete(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        self._failure = failure
        self._metadata = metadata
        if self._event is not None:
            self._event.set()
        if self._callbacks is not None:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        with _rare:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)


def metadata_of(message: confluent_kafka.Message) -> RecordMetadata:
    partition, offset = message.partition(), message.offset()
    return RecordMetadata(
        message.topic() or "",
        -1 if partition is None else partition,
        -1 if offset is None or offset < 0 else offset,
        message.timestamp()[1],
        message.latency() or 0.0,
    )
