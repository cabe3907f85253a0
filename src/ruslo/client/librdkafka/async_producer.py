"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from ruslo.client.librdkafka.delivery import RecordMetadata, Report
from ruslo.client.librdkafka.producer import Headers, Partitioner, Producer
from ruslo.client.librdkafka.producer_transaction import ProducerTransaction
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ruslo.client.librdkafka.async_consumer import AsyncConsumer

    K = TypeVar("K", default=bytes | str | None)
    V = TypeVar("V", default=bytes | str | None)
    T = TypeVar("T")
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    T = TypeVar("T")


class AsyncProducer(Generic[K, V]):
    """``await send(...)`` takes the record, and waits only for room or metadata; awaiting what it returns
    waits for the acknowledgement. ``send_and_wait`` does both.

    Made and used within one event loop. Whatever blocks runs in a thread of the producer, in order.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_serializer: Callable[[K], bytes | str | None] | None = None,
        value_serializer: Callable[[V], bytes | str | None] | None = None,
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
        self._settled: deque[tuple[asyncio.Future[RecordMetadata], KafkaError | None, RecordMetadata]]
        self._settled = deque()

    async def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue one record; the future tells where it was stored, or why not."""
        delivery: asyncio.Future[RecordMetadata] = self._loop.create_future()

        report = AwaitedReport(self._settle, delivery)

        def hand_over(blocking: bool) -> bool:
            return self._producer.hand_over(
                report, topic, value, key, headers, partition, timestamp_ms, blocking=blocking
            )

        if not hand_over(blocking=False):
            await self._in_thread(lambda: hand_over(blocking=True))
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Where the record was stored; raises if it was not."""
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def send_many(self, topic: str, values: Iterable[V]) -> list[asyncio.Future[RecordMetadata]]:
        """A future for each value, in their order."""
        return [await self.send(topic, value) for value in values]

    async def partitions_for(self, topic: str) -> list[int]:
        return await self._in_thread(lambda: self._producer.partitions_for(topic))

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record is acknowledged or failed; the futures say which."""
        await self._in_thread(lambda: self._producer.flush(timeout_s))

    def transaction(self) -> AsyncProducerTransaction:
        """``async with producer.transaction(): …`` commits, or aborts if an exception leaves the block."""
        return AsyncProducerTransaction(self._producer.transaction(), self._in_thread)

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then let go; what is not acknowledged in time is dropped and reported as failed."""
        try:
            await self._in_thread(lambda: self._producer.close(timeout_s))
        finally:
            self._blocking.shutdown(wait=False)

    def __len__(self) -> int:
        """Records that are not acknowledged yet."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self._in_thread(lambda: self._producer.__exit__(kind, error, trace))
        finally:
            self._blocking.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._blocking, call)

    def _settle(
        self, delivery: asyncio.Future[RecordMetadata], failure: KafkaError | None, metadata: RecordMetadata
    ) -> None:
        """Called by the producer's thread. One wake-up of the loop serves all that came until it runs."""
        first = not self._settled
        self._settled.append((delivery, failure, metadata))
        if first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        while self._settled:
            delivery, failure, metadata = self._settled[0]
            if not delivery.done():
                if failure is None:
                    delivery.set_result(metadata)
                else:
                    delivery.set_exception(failure)
                    if failure.code == ErrorCode.OPERATION_NOT_ATTEMPTED:
                        # Dropped on purpose, by an abort or close: asyncio need not complain if nobody asks.
                        delivery.exception()
            # Taken out last: whoever finds the queue empty wakes the loop again.
            self._settled.popleft()


class AwaitedReport(Report):
    """Passes it to a future of the event loop."""

    __slots__ = ("_delivery", "_settle")

    def __init__(
        self,
        settle: Callable[[asyncio.Future[RecordMetadata], KafkaError | None, RecordMetadata], None],
        delivery: asyncio.Future[RecordMetadata],
    ) -> None:
        self._settle = settle
        self._delivery = delivery

    def settle(self, failure: KafkaError | None, metadata: RecordMetadata) -> None:
        self._settle(self._delivery, failure, metadata)


class AsyncProducerTransaction:
    """Commits when the block ends, aborts when an exception leaves it."""

    def __init__(
        self,
        transaction: ProducerTransaction,
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._transaction = transaction
        self._in_thread = in_thread
        self._ending: asyncio.Future[None] | None = None
        """Of one that was cancelled before it had begun, or before it had ended."""

    async def send_offsets(
        self, consumer: AsyncConsumer[K, V], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Let the transaction commit a consumer's offsets; without positions, of all records it gave out."""
        await self._in_thread(lambda: self._transaction.send_offsets(consumer.offset_source, positions))

    async def __aenter__(self) -> Self:
        beginning = asyncio.ensure_future(self._in_thread(self._enter))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError as cancelled:
            # It begins all the same, and nobody else would end it. The thread does one thing after another.
            beginning.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._ending = asyncio.ensure_future(
                self._in_thread(partial(self._transaction.__exit__, type(cancelled), cancelled, None))
            )
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = asyncio.ensure_future(
            self._in_thread(lambda: self._transaction.__exit__(kind, error, trace))
        )
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # What waits for the thread would be dropped, and the transaction stay open: it ends all the same.
            ending.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._ending = ending
            raise

    def _enter(self) -> None:
        self._transaction.__enter__()
