"""AsyncProducer: the producer for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ruslo.client.librdkafka.delivery import RecordMetadata, Report
from ruslo.client.librdkafka.producer import Headers, Partitioner, Producer
from ruslo.client.librdkafka.producer_transaction import ProducerTransaction
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.type_variables import ProducedK, ProducedV
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.librdkafka.async_consumer import AsyncConsumer

T = TypeVar("T")


class AsyncProducer(Generic[ProducedK, ProducedV]):
    """``await send(...)`` queues the record and waits only for buffer memory or metadata. It returns a future
    of the acknowledgement; ``send_and_wait`` awaits both.

    Create and use it within one event loop. Blocking calls run in a thread of the producer, in order.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_serializer: Callable[[ProducedK], bytes | str | None] | None = None,
        value_serializer: Callable[[ProducedV], bytes | str | None] | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self._producer = Producer(
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
        )
        self._loop = asyncio.get_running_loop()
        self._blocking = ThreadPoolExecutor(1, thread_name_prefix="ruslo-producer-blocking")
        self._completed: deque[tuple[asyncio.Future[RecordMetadata], KafkaError | None, RecordMetadata]]
        self._completed = deque()

    async def send(
        self,
        topic: str,
        value: ProducedV | None = None,
        *,
        key: ProducedK | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record; the future returns where it was stored, or raises its error."""
        delivery: asyncio.Future[RecordMetadata] = self._loop.create_future()

        report = AwaitedReport(self._complete, delivery)

        def enqueue(blocking: bool) -> bool:
            return self._producer.enqueue(
                report, topic, value, key, headers, partition, timestamp_ms, blocking=blocking
            )

        if not enqueue(blocking=False):
            await self._in_thread(lambda: enqueue(blocking=True))
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: ProducedV | None = None,
        *,
        key: ProducedK | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Queue a record and wait; returns where it was stored, or raises its error."""
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def send_many(
        self, topic: str, values: Iterable[ProducedV]
    ) -> list[asyncio.Future[RecordMetadata]]:
        """Queue a record per value; returns their futures in order."""
        return [await self.send(topic, value) for value in values]

    async def partitions_for(self, topic: str) -> list[int]:
        return await self._in_thread(lambda: self._producer.partitions_for(topic))

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record is acknowledged or has failed."""
        await self._in_thread(lambda: self._producer.flush(timeout_s))

    def transaction(self) -> AsyncProducerTransaction:
        """``async with producer.transaction(): …`` commits, or aborts if an exception leaves the block."""
        return AsyncProducerTransaction(self._producer.transaction(), self._in_thread)

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then release everything; records that are not acknowledged in time are dropped and fail."""
        try:
            await self._in_thread(lambda: self._producer.close(timeout_s))
        finally:
            self._blocking.shutdown(wait=False)

    def __len__(self) -> int:
        """The number of records that are not acknowledged yet."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self._in_thread(lambda: self._producer.__exit__(kind, error, trace))
        finally:
            self._blocking.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._blocking, call)

    def _complete(
        self, delivery: asyncio.Future[RecordMetadata], failure: KafkaError | None, metadata: RecordMetadata
    ) -> None:
        """Called by the producer's thread. One wake-up of the loop handles all reports queued until then."""
        first = not self._completed
        self._completed.append((delivery, failure, metadata))
        if first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver_reports)

    def _deliver_reports(self) -> None:
        while self._completed:
            delivery, failure, metadata = self._completed[0]
            if not delivery.done():
                if failure is None:
                    delivery.set_result(metadata)
                else:
                    delivery.set_exception(failure)
                    if failure.code == ErrorCode.OPERATION_NOT_ATTEMPTED:
                        # An abort or close dropped the record: asyncio must not warn about an unread error.
                        delivery.exception()
            # Popped last: the thread that finds the queue empty wakes the loop again.
            self._completed.popleft()


class AwaitedReport(Report):
    """Passes the outcome to a future of the event loop."""

    __slots__ = ("_complete", "_delivery")

    def __init__(
        self,
        complete: Callable[[asyncio.Future[RecordMetadata], KafkaError | None, RecordMetadata], None],
        delivery: asyncio.Future[RecordMetadata],
    ) -> None:
        self._complete = complete
        self._delivery = delivery

    def complete(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        self._complete(self._delivery, failure, metadata)


class AsyncProducerTransaction:
    """Commits when the block ends, aborts when an exception leaves it."""

    def __init__(
        self,
        transaction: ProducerTransaction,
        in_thread: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        self._transaction = transaction
        self._in_thread = in_thread
        self._ending: asyncio.Future[object] | None = None
        """The end of a transaction whose begin or end was cancelled; kept so that it is not collected."""

    async def send_offsets(
        self,
        consumer: AsyncConsumer[ProducedK, ProducedV],
        positions: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Commit a consumer's positions with the transaction, by default those of all delivered records."""
        await self._in_thread(lambda: self._transaction.send_offsets(consumer.offset_source, positions))

    async def __aenter__(self) -> Self:
        beginning = asyncio.ensure_future(self._in_thread(self._transaction.__enter__))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError as cancelled:
            # The transaction still begins, so it must be ended. The thread runs the calls in order.
            beginning.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._ending = asyncio.ensure_future(
                self._in_thread(partial(self._transaction.__exit__, type(cancelled), cancelled, None))
            )
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ending = asyncio.ensure_future(
            self._in_thread(lambda: self._transaction.__exit__(kind, error, trace))
        )
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # A cancelled call would leave the transaction open, so it still runs to its end.
            ending.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._ending = ending
            raise
