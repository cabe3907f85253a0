"""A scripted broker in a thread, for commands, which run their own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping

from tests.support.brokers.scripted_broker import Script, ScriptedBroker


@contextlib.contextmanager
def scripted_bootstrap(script: Script, topics: Mapping[str, int]) -> Iterator[str]:
    """Yields the address. ``topics``: the leader of partition 0 by topic, -1 for none."""
    started, stop = threading.Event(), asyncio.Event()
    broker = ScriptedBroker(script)
    broker.topics = dict(topics)
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with broker:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        yield f"127.0.0.1:{broker.port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
