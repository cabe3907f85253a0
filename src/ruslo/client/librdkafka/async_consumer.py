"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias

from ruslo.client.librdkafka.consumed_record import ConsumedRecord, Deserializer
from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.librdkafka.producer_transaction import OffsetSource
from ruslo.client.librdkafka.rebalances import RebalanceCallback
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
    T = TypeVar("T")
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    T = TypeVar("T")

AsyncRebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None]]

_SLICE_S = 0.1
"""Reads hold the consumer's thread for so long at a time: whatever else is asked of it waits no longer."""


class AsyncConsumer(Generic[K, V]):
    """``async for record in consumer`` reads for ever; ``poll`` and ``batches`` give lists.

    What ``Consumer`` says holds here too. It works in a thread of its own, and a poll that is cancelled loses
    nothing: what it would have returned is given out by the next one.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
    ) -> None:
        self._consumer = Consumer(
            config, key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )
        self._consumer.may_take_back = True
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ruslo-consumer")
        self._errands: SimpleQueue[Callable[[], None] | None] | None = None
        self._at_work = 0

    @property
    def offset_source(self) -> OffsetSource:
        """What a transaction commits this consumer's offsets by."""
        return self._consumer

    async def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        on_assign: AsyncRebalanceCallback | None = None,
        on_revoke: AsyncRebalanceCallback | None = None,
        on_lost: AsyncRebalanceCallback | None = None,
    ) -> None:
        """Join the group for these topics. Callbacks are coroutines and run in the event loop."""
        await self._call(
            lambda: self._consumer.subscribe(
                topics,
                on_assign=self._in_loop(on_assign),
                on_revoke=self._in_loop(on_revoke),
                on_lost=self._in_loop(on_lost),
            )
        )

    async def unsubscribe(self) -> None:
        await self._call(self._consumer.unsubscribe)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        await self._call(lambda: self._consumer.assign(positions))

    async def assignment(self) -> list[TopicPartition]:
        return await self._call(self._consumer.assignment)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        await self._call(lambda: self._consumer.seek(partition, offset))

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        await self._call(lambda: self._consumer.pause(partitions))

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        await self._call(lambda: self._consumer.resume(partitions))

    async def poll(self, timeout_s: float = 1.0) -> list[ConsumedRecord[K, V]]:
        """Up to ``max.poll.records`` records; empty when none came in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            slice_s = max(0.0, min(_SLICE_S, deadline - time.monotonic()))
            records = await self._read(partial(self._consumer.poll, slice_s))
            if records or time.monotonic() >= deadline:
                return records

    async def batches(self, max_wait_s: float = 1.0) -> AsyncIterator[list[ConsumedRecord[K, V]]]:
        """Lists of one to ``max.poll.records`` records, for ever."""
        while True:
            records = await self.poll(max_wait_s)
            if records:
                yield records

    def __aiter__(self) -> AsyncIterator[ConsumedRecord[K, V]]:
        return self

    async def __anext__(self) -> ConsumedRecord[K, V]:
        if not self._at_work and (ready := self._consumer.next_ready()) is not None:
            return ready
        while not self._consumer.closed:
            record = await self._read(partial(self._consumer.next_within, _SLICE_S))
            if record is not None:
                return record
        raise StopAsyncIteration

    def position(self, partition: TopicPartition) -> int | None:
        return self._consumer.position(partition)

    def positions(self) -> dict[TopicPartition, int]:
        return self._consumer.positions()

    async def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Store the group's offsets and wait for the answer; without positions, of all that was given out."""
        await self._call(lambda: self._consumer.commit(positions))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        return await self._call(lambda: self._consumer.committed(partitions, timeout_s))

    async def partitions_for(self, topic: str, timeout_s: float | None = None) -> list[int]:
        return await self._call(lambda: self._consumer.partitions_for(topic, timeout_s))

    async def offset_range(
        self, partition: TopicPartition, timeout_s: float | None = None
    ) -> tuple[int, int]:
        return await self._call(lambda: self._consumer.offset_range(partition, timeout_s))

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._call(lambda: self._consumer.offsets_for_times(times_ms, timeout_s))

    async def close(self) -> None:
        """Leave the group; with ``enable.auto.commit`` everything that was given out counts as processed."""
        await self._end(self._consumer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(lambda: self._consumer.__exit__(kind, error, trace))

    async def _end(self, close: Callable[[], None]) -> None:
        try:
            await self._submit(close)
        finally:
            self._worker.shutdown(wait=False)

    async def _read(self, call: Callable[[], T]) -> T:
        reading = self._submit(call)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # Nobody gets what it finds: the next read must give it out, and no commit may cover it before.
            reading.add_done_callback(_heard)
            if not self._consumer.closed:
                self._submit(self._consumer.take_back)
            raise

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        self._at_work += 1
        answer = self._loop.run_in_executor(self._worker, call)
        answer.add_done_callback(self._worked)
        return answer

    def _worked(self, answer: asyncio.Future[T]) -> None:
        self._at_work -= 1

    async def _call(self, call: Callable[[], T]) -> T:
        errands = self._errands
        if errands is None:
            return await self._submit(call)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        errands.put(run)
        return await asyncio.wrap_future(answer)

    def _in_loop(self, callback: AsyncRebalanceCallback | None) -> RebalanceCallback | None:
        """Runs a callback in the event loop while the worker, inside poll, does what it asks of the consumer.

        librdkafka wants that from the thread that it has called; from another it may wait for ever.
        """
        if callback is None:
            return None

        def wait(partitions: list[TopicPartition]) -> None:
            errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

            async def run() -> None:
                self._errands = errands
                try:
                    await callback(partitions)
                finally:
                    self._errands = None
                    errands.put(None)

            running = asyncio.run_coroutine_threadsafe(run(), self._loop)
            while (errand := errands.get()) is not None:
                errand()
            running.result()

        return wait


def _heard(reading: asyncio.Future[T]) -> None:
    """A failure that nobody waits for comes again with the next read, or is over."""
    if not reading.cancelled():
        reading.exception()
