"""ShareConsumer: Kafka's KafkaShareConsumer in Python."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from ruslo.client.errors import ClientUnusable
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.share.async_share_consumer import AsyncShareConsumer, CommitResult
from ruslo.client.share.share_record import Deserializer, ShareRecord
from ruslo.client.type_variables import ConsumedK, ConsumedV

T = TypeVar("T")

_POLL_S = 1.0


class ShareConsumer(Generic[ConsumedK, ConsumedV]):
    """``for record in consumer`` reads forever; ``poll`` and ``batches`` return lists.

    It behaves like ``AsyncShareConsumer``, which it runs in a thread: the membership is kept while the
    application works. A consumer belongs to one thread and cannot be used after a fork.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[ConsumedK] | None = None,
        value_deserializer: Deserializer[ConsumedV] | None = None,
        on_acknowledged: Callable[[CommitResult], None] | None = None,
    ) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._results: list[CommitResult] = []
        self._on_acknowledged = on_acknowledged
        keep = None if on_acknowledged is None else self._results.append
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ruslo-share-consumer", daemon=True
        )

        async def new() -> AsyncShareConsumer[ConsumedK, ConsumedV]:
            return AsyncShareConsumer(
                config,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                on_acknowledged=keep,
            )

        self._thread.start()
        try:
            self._consumer = self._wait(new())
        except BaseException:
            self._stop_loop()
            raise

    # -- subscription

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group with these topics, or replace them."""
        self._call(self._consumer.subscribe(topics))

    def unsubscribe(self) -> None:
        """Leave the group. Records without an acknowledgement are released."""
        self._call(self._consumer.unsubscribe())

    def subscription(self) -> frozenset[str]:
        return self._consumer.subscription()

    # -- records

    def poll(self, timeout_s: float = _POLL_S) -> list[ShareRecord[ConsumedK, ConsumedV]]:
        """Up to ``max.poll.records`` records; empty after the timeout."""
        return self._call(self._consumer.poll(timeout_s))

    def batches(self, max_wait_s: float = _POLL_S) -> Iterator[list[ShareRecord[ConsumedK, ConsumedV]]]:
        """Lists of one to ``max.poll.records`` records, forever."""
        while not self.closed:
            records = self.poll(max_wait_s)
            if records:
                yield records

    def __iter__(self) -> Iterator[ShareRecord[ConsumedK, ConsumedV]]:
        return self

    def __next__(self) -> ShareRecord[ConsumedK, ConsumedV]:
        while not self.closed:
            record = self._consumer.next_buffered() or self._call(self._consumer.poll_one(_POLL_S))
            if record is not None:
                return record
        raise StopIteration

    # -- acknowledgements

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long delivered records stay locked; None before the first fetch."""
        return self._consumer.acquisition_lock_timeout_ms

    def commit(self) -> CommitResult:
        """Send acknowledgements, and wait for their results. With implicit acknowledgement, delivered records
        are accepted."""
        return self._call(self._consumer.commit())

    def commit_async(self) -> None:
        """Send acknowledgements without waiting; ``on_acknowledged`` gets their results in a later call."""
        self._call(self._consumer.commit_async())

    # -- close

    @property
    def closed(self) -> bool:
        return self._consumer.closed

    def close(self) -> None:
        """Leave the group; with implicit acknowledgement all delivered records are accepted."""
        if not self.closed:
            self._end(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if not self.closed:
            # After an error the current record is released.
            self._end(self._consumer.__aexit__(kind, error, trace))

    def _end(self, closing: Coroutine[Any, Any, None]) -> None:
        try:
            self._call(closing)
        finally:
            self._stop_loop()

    def _call(self, call: Coroutine[Any, Any, T]) -> T:
        if self.closed or os.getpid() != self._pid:
            call.close()
            reason = "is closed" if self.closed else "was created before the process forked: create a new one"
            raise ClientUnusable(f"the consumer {reason}")
        result = self._wait(call)
        results, self._results[:] = list(self._results), []
        for each in results:
            assert self._on_acknowledged is not None, "results are kept for it"
            self._on_acknowledged(each)
        return result

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return running.result()
        except BaseException:
            # Ctrl-C interrupts the wait only.
            running.cancel()
            raise

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
