"""Reads spans of partitions from brokers: answers arrive in a thread while others are decoded."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.fetching import SpanFetcher
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import Span


def scan_wire(spans: tuple[Span, ...], options: SourceOptions) -> Iterator[Chunk]:
    """Every batch that holds offsets of the spans, in order within each partition."""
    scan = _WireScan(spans, options)
    thread = threading.Thread(target=scan.run, name="ruslo-fetch", daemon=True)
    thread.start()
    try:
        yield from scan.chunks()
    finally:
        scan.stop()
        thread.join()
        scan.close()


class _WireScan:
    """Joins the two threads: answers go one way through a queue, the room for more goes the other way."""

    def __init__(self, spans: tuple[Span, ...], options: SourceOptions) -> None:
        self._arrived: queue.SimpleQueue[Chunk | BaseException | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._fetcher = SpanFetcher(spans, options, self._arrived.put)

    def chunks(self) -> Iterator[Chunk]:
        while (arrived := self._arrived.get()) is not None:
            if isinstance(arrived, BaseException):
                raise arrived
            self._loop.call_soon_threadsafe(self._fetcher.taken)
            yield arrived

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._fetcher.cancel)

    def close(self) -> None:
        """After the thread has ended: until then the loop takes calls, even ones that nobody will make."""
        self._loop.close()

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._fetcher.run())
        except BaseException as error:
            self._arrived.put(error)
        else:
            self._arrived.put(None)
