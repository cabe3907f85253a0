from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from ruslo.client.librdkafka.delivery import Delivery, RecordMetadata
from ruslo.model.errors import ErrorCode, KafkaError

STORED = RecordMetadata("t", 0, 7, 1, 0.1)
FAILED = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")


def test_a_result() -> None:
    delivery = Delivery()
    with pytest.raises(TimeoutError, match="not acknowledged within"):
        delivery.result(0)
    before = delivery.done()
    delivery.complete(None, STORED)
    assert (before, delivery.done()) == (False, True)
    assert delivery.result() == STORED
    assert delivery.exception() is None


def test_a_failure_is_seen_once_it_is_read() -> None:
    delivery = Delivery()
    delivery.complete(FAILED, STORED)
    before = delivery.seen
    assert delivery.exception() is FAILED
    assert (before, delivery.seen) == (False, True)
    with pytest.raises(KafkaError, match="too large"):
        delivery.result()


def test_all_waiting_threads_wake_up() -> None:
    delivery = Delivery()
    results: list[RecordMetadata] = []
    threads = [threading.Thread(target=lambda: results.append(delivery.result(30))) for _ in range(5)]
    for thread in threads:
        thread.start()
    delivery.complete(None, STORED)
    for thread in threads:
        thread.join(30)
    assert results == [STORED] * 5


def test_callbacks_run_once_whether_added_before_or_after() -> None:
    delivery = Delivery()
    seen: list[str] = []
    delivery.add_done_callback(lambda _: seen.append("before"))
    delivery.complete(None, STORED)
    delivery.add_done_callback(lambda _: seen.append("after"))
    assert seen == ["before", "after"]


def test_as_future() -> None:
    stored, failed = Delivery(), Delivery()
    futures = [stored.as_future(), failed.as_future()]
    stored.complete(None, STORED)
    failed.complete(FAILED, STORED)
    concurrent.futures.wait(futures, 30)
    assert futures[0].result() == STORED
    assert futures[1].exception() is FAILED

    async def awaited() -> RecordMetadata:
        return await asyncio.wrap_future(stored.as_future())

    assert asyncio.run(awaited()) == STORED
