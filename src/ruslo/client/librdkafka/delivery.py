"""What becomes of a record that was sent.

librdkafka reports each record to an object of its own. There is exactly one for a record: closures would be a
dozen, and with a full buffer the garbage collector would spend more time on them than sending takes.
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
"""Guards what few deliveries need: somebody who waits, callbacks."""


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 with acks=0: nobody told us."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    latency_s: float


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, RecordMetadata], None]


class Report(ABC):
    """What librdkafka calls when a record is acknowledged or has failed."""

    __slots__ = ("_keeper", "_size")

    def taken(self, keeper: RecordKeeper, size: int) -> None:
        """The record was counted into a producer's memory, which gets it back at the end."""
        self._keeper = keeper
        self._size = size

    def __call__(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        try:
            self.settle(None if error is None else as_kafka_error(error), metadata_of(message))
        finally:
            self._keeper.settled(self, self._size, error)

    @abstractmethod
    def settle(self, failure: KafkaError | None, metadata: RecordMetadata) -> None: ...


class RecordKeeper(Protocol):
    """The producer, as far as its records need it."""

    def settled(self, report: Report, size: int, error: confluent_kafka.KafkaError | None) -> None: ...


class CallbackReport(Report):
    """Passes it to a callback of the user; without one, ``failure`` is for flush to raise."""

    __slots__ = ("_on_delivery", "failure")

    def __init__(self, on_delivery: DeliveryCallback | None) -> None:
        self._on_delivery = on_delivery
        self.failure: KafkaError | None = None

    def settle(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        if self._on_delivery is None:
            self.failure = failure
            return
        try:
            self._on_delivery(failure, metadata)
        except Exception:
            _log.exception("on_delivery failed for a record of %s", metadata.topic)


class Delivery(Report):
    """A future: done when the record is acknowledged or has failed. It cannot be cancelled.

    Python's own futures cost ten times as much, for each has a lock; ``as_future`` makes one of it.
    """

    __slots__ = ("_callbacks", "_failure", "_metadata", "_waited_for", "seen")

    def __init__(self) -> None:
        self.seen = False
        """Whether somebody has asked what became of it; a failure that nobody saw is for flush to raise."""
        self._metadata: RecordMetadata | None = None
        self._failure: KafkaError | None = None
        self._waited_for: threading.Event | None = None
        self._callbacks: list[Callable[[Delivery], None]] | None = None

    def done(self) -> bool:
        return self._metadata is not None

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Where the record was stored; raises why it was not, or TimeoutError while that is open."""
        failure = self.exception(timeout_s)
        if failure is not None:
            raise failure
        assert self._metadata is not None, "it is done"
        return self._metadata

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        """Why the record was not stored, or None."""
        self.seen = True
        if self._metadata is None:
            with _rare:
                self._waited_for = event = self._waited_for or threading.Event()
            # Settled between the two looks: settle() did not see the event, but this look sees the result.
            if self._metadata is None and not event.wait(timeout_s):
                raise TimeoutError(f"the record was not acknowledged within {timeout_s} s")
        return self._failure

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Called once it is done, by the producer's thread, or at once if it is done already."""
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

    def settle(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        self._failure = failure
        self._metadata = metadata
        if self._waited_for is not None:
            self._waited_for.set()
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
