from __future__ import annotations

import threading
import time

from ruslo.client.librdkafka.buffer_memory import BufferMemory


def test_memory_is_reserved_and_released() -> None:
    memory = BufferMemory(100)
    assert memory.try_reserve(60)
    assert not memory.try_reserve(60)
    memory.release(60)
    assert memory.try_reserve(60)
    assert memory.records == 1


def test_reserve_times_out_at_its_deadline() -> None:
    memory = BufferMemory(10)
    assert memory.try_reserve(10)
    assert not memory.reserve(1, time.monotonic() + 0.01)
    assert memory.records == 1


def test_waiting_threads_go_first() -> None:
    memory = BufferMemory(100)
    assert memory.try_reserve(90)
    got: list[bool] = []
    waiter = threading.Thread(target=lambda: got.append(memory.reserve(50, time.monotonic() + 30)))
    waiter.start()
    while not memory._waiting:
        time.sleep(0.001)
    assert not memory.try_reserve(5)
    memory.release(90)
    waiter.join(30)
    assert got == [True]
    assert memory.try_reserve(5)


def test_waiting_until_all_memory_is_released() -> None:
    memory = BufferMemory(10)
    assert memory.try_reserve(5)
    assert not memory.wait_empty(0.01)
    memory.release(5)
    assert memory.wait_empty(0)
