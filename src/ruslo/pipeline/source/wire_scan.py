"""Reads offset ranges from brokers: a thread fetches while the task decodes."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.fetching import RangeFetcher
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange


def scan_wire(ranges: tuple[OffsetRange, ...], options: SourceOptions) -> Iterator[Chunk]:
    """Every batch that contains offsets of the ranges, in order within each partition."""
    scan = _WireScan(ranges, options)
    thread = threading.Thread(target=scan.run, name="ruslo-fetch", daemon=True)
    thread.start()
    try:
        yield from scan.chunks()
    finally:
        scan.stop()
        thread.join()
        scan.close()


class _WireScan:
    """Connects the two threads: chunks go through a queue, and the decoder releases room for more."""

    def __init__(self, ranges: tuple[OffsetRange, ...], options: SourceOptions) -> None:
        self._arrived: queue.SimpleQueue[Chunk | BaseException | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._fetcher = RangeFetcher(ranges, options, self._arrived.put)

    def chunks(self) -> Iterator[Chunk]:
        while (arrived := self._arrived.get()) is not None:
            if isinstance(arrived, BaseException):
                raise arrived
            self._loop.call_soon_threadsafe(self._fetcher.release)
            yield arrived

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._fetcher.cancel)

    def close(self) -> None:
        """Called after the thread has ended: until then the loop must accept calls."""
        self._loop.close()

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._fetcher.run())
        except BaseException as error:
            self._arrived.put(error)
        else:
            self._arrived.put(None)
