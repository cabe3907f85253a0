"""Handshakes of clients share the event loop with open connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ruslo.net.tls.handshake_queue import HANDSHAKES_PER_ITERATION, HandshakeQueue


class Handshakes:
    """Counts the handshakes of each iteration of the event loop."""

    def __init__(self) -> None:
        self.iteration = 0
        self.done: Counter[int] = Counter()

    def continue_handshake(self) -> None:
        self.done[self.iteration] += 1

    async def iterate(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)
            self.iteration += 1


async def test_an_iteration_has_a_few_handshakes_and_then_serves_the_others() -> None:
    queue, handshakes = HandshakeQueue(asyncio.get_running_loop()), Handshakes()
    waiting = 10 * HANDSHAKES_PER_ITERATION + 1
    for _ in range(waiting):
        queue.add(handshakes)
    await handshakes.iterate(20)
    assert handshakes.done.total() == waiting
    assert max(handshakes.done.values()) == HANDSHAKES_PER_ITERATION
    queue.add(handshakes)
    await handshakes.iterate(2)
    assert handshakes.done.total() == waiting + 1


async def test_a_handshake_that_fails_does_not_hold_up_the_others() -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    queue, handshakes = HandshakeQueue(loop), Handshakes()

    class Failing:
        def continue_handshake(self) -> None:
            raise RuntimeError("a bug")

    queue.add(Failing())
    for _ in range(3 * HANDSHAKES_PER_ITERATION):
        queue.add(handshakes)
    await handshakes.iterate(10)
    assert handshakes.done.total() == 3 * HANDSHAKES_PER_ITERATION
    assert [str(each["exception"]) for each in reported] == ["a bug"]
