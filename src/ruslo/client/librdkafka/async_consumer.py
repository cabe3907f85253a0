"""AsyncConsumer: the consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Generic, Self, TypeAlias, TypeVar

from ruslo.client.librdkafka.consumed_record import ConsumedRecord, Deserializer
from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.librdkafka.producer_transaction import OffsetSource
from ruslo.client.librdkafka.rebalances import RebalanceCallback
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.type_variables import ConsumedK, ConsumedV
from ruslo.model.topics import TopicPartition

T = TypeVar("T")

AsyncRebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None]]

_POLL_MAX_S = 0.1
"""The longest poll in the consumer's thread, so that other calls wait no longer than this."""


class AsyncConsumer(Generic[ConsumedK, ConsumedV]):
    """``async for record in consumer`` reads forever; ``poll`` and ``batches`` return lists.

    It behaves like ``Consumer``, which it runs in a thread. A cancelled poll loses nothing: the next one
    returns its records.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[ConsumedK] | None = None,
        value_deserializer: Deserializer[ConsumedV] | None = None,
    ) -> None:
        self._consumer = _UndoableConsumer(
            config, key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ruslo-consumer")
        self._callback_calls: SimpleQueue[Callable[[], None] | None] | None = None
        """Calls that a running rebalance callback makes to the consumer."""
        self._running_calls = 0

    @property
    def offset_source(self) -> OffsetSource:
        """The source of the offsets that a transaction commits."""
        return self._consumer

    async def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        on_assign: AsyncRebalanceCallback | None = None,
        on_revoke: AsyncRebalanceCallback | None = None,
        on_lost: AsyncRebalanceCallback | None = None,
    ) -> None:
        """Join the group with these topics. Callbacks are coroutines and run in the event loop."""
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

    async def poll(self, timeout_s: float = 1.0) -> list[ConsumedRecord[ConsumedK, ConsumedV]]:
        """Up to ``max.poll.records`` records; empty after the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            slice_s = max(0.0, min(_POLL_MAX_S, deadline - time.monotonic()))
            records = await self._read(partial(self._consumer.poll, slice_s))
            if records or time.monotonic() >= deadline:
                return records

    async def batches(
        self, max_wait_s: float = 1.0
    ) -> AsyncIterator[list[ConsumedRecord[ConsumedK, ConsumedV]]]:
        """Lists of one to ``max.poll.records`` records, forever."""
        while True:
            records = await self.poll(max_wait_s)
            if records:
                yield records

    def __aiter__(self) -> AsyncIterator[ConsumedRecord[ConsumedK, ConsumedV]]:
        return self

    async def __anext__(self) -> ConsumedRecord[ConsumedK, ConsumedV]:
        if not self._running_calls and (ready := self._consumer.next_buffered()) is not None:
            return ready
        while not self._consumer.closed:
            record = await self._read(partial(self._consumer.poll_one, _POLL_MAX_S))
            if record is not None:
                return record
        raise StopAsyncIteration

    def position(self, partition: TopicPartition) -> int | None:
        return self._consumer.position(partition)

    def positions(self) -> dict[TopicPartition, int]:
        return self._consumer.positions()

    async def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets and wait for the response; by default those of all delivered records."""
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
        """Leave the group; with ``enable.auto.commit`` all delivered records count as processed."""
        await self._end(self._consumer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
            # The next read must return these records, and no commit may cover them before.
            reading.add_done_callback(_ignore_error)
            if not self._consumer.closed:
                self._submit(self._consumer.undeliver)
            raise

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        self._running_calls += 1
        result = self._loop.run_in_executor(self._worker, call)
        result.add_done_callback(self._call_done)
        return result

    def _call_done(self, result: asyncio.Future[T]) -> None:
        self._running_calls -= 1

    async def _call(self, call: Callable[[], T]) -> T:
        callback_calls = self._callback_calls
        if callback_calls is None:
            return await self._submit(call)
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(call())
            except BaseException as error:
                result.set_exception(error)

        callback_calls.put(run)
        return await asyncio.wrap_future(result)

    def _in_loop(self, callback: AsyncRebalanceCallback | None) -> RebalanceCallback | None:
        """Run a callback in the event loop while the worker thread, inside poll, executes its consumer calls.

        librdkafka requires these calls from the thread that polls; from another thread they may deadlock.
        """
        if callback is None:
            return None

        def wait(partitions: list[TopicPartition]) -> None:
            calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

            async def run() -> None:
                self._callback_calls = calls
                try:
                    await callback(partitions)
                finally:
                    self._callback_calls = None
                    calls.put(None)

            running = asyncio.run_coroutine_threadsafe(run(), self._loop)
            while (call := calls.get()) is not None:
                call()
            running.result()

        return wait


class _UndoableConsumer(Consumer[ConsumedK, ConsumedV]):
    keeps_last_delivery = True


def _ignore_error(reading: asyncio.Future[T]) -> None:
    """The next read raises the error again if it persists."""
    if not reading.cancelled():
        reading.exception()
