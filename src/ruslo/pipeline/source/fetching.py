"""Fetches the batches of offset ranges: the next request is in flight while the last response is decoded.

Leaders may move meanwhile; the client finds the new one. Records are lost, and failOnDataLoss decides what
happens, when

- retention deletes offsets before they are read,
- the topic is deleted or recreated,
- an unclean leader election truncates the log.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ruslo.client.admin.offsets import Offsets
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import FetchedBatches, RawClient
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.ids import ZERO_UUID
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange
from ruslo.pipeline.source.positions import EARLIEST, LATEST

_MAX_WAIT_MS: Final = 500
_CHUNKS_AHEAD: Final = 2
"""Chunks that may wait for the decoder; together with the one being decoded they bound a task's memory."""
_RETRY_BACKOFF_S: Final = 0.05
_FETCH_BYTES_MIN: Final = 64 * 1024
_TOPIC_DELETED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class RangeFetcher:
    """Runs on an event loop and passes chunks to ``on_chunk``; ``release`` makes room for another one."""

    def __init__(
        self, ranges: tuple[OffsetRange, ...], options: SourceOptions, on_chunk: Callable[[Chunk], None]
    ) -> None:
        self._ranges = {r.partition: r for r in ranges}
        assert len(self._ranges) == len(ranges), "a task has one offset range per partition"
        self._positions = {r.partition: r.start for r in ranges}
        self._bytes_per_offset = {r.partition: r.bytes_per_offset for r in ranges}
        self._options = options
        self._on_chunk = on_chunk
        self._room = asyncio.Semaphore(_CHUNKS_AHEAD)
        self._running: asyncio.Task[None] | None = None
        self._clock = SystemClock()
        self._progress_ms = 0

    def release(self) -> None:
        self._room.release()

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        self._running = asyncio.ensure_future(self._fetch_all())
        try:
            await self._running
        except asyncio.CancelledError:
            # The reader has all the rows it needs, or has failed.
            return

    async def _fetch_all(self) -> None:
        async with self._options.client.new_cluster() as cluster:
            self._progress_ms = self._clock.monotonic_ms()
            next_fetch = asyncio.ensure_future(self._fetch(cluster))
            try:
                while self._positions:
                    chunks = self._advance(await next_fetch)
                    if self._positions:
                        next_fetch = asyncio.ensure_future(self._fetch(cluster))
                    for chunk in chunks:
                        await self._room.acquire()
                        self._on_chunk(chunk)
                        # Time spent waiting for the decoder does not count against the leaders.
                        self._progress_ms = self._clock.monotonic_ms()
            finally:
                next_fetch.cancel()

    async def _fetch(self, cluster: Cluster) -> Mapping[TopicPartition, FetchedBatches]:
        try:
            fetched = await RawClient(cluster).fetch(
                dict(self._positions),
                max_wait_ms=_MAX_WAIT_MS,
                max_bytes=self._options.fetch_bytes,
                partition_max_bytes=self._fetch_bytes(),
                read_committed=self._options.read_committed,
            )
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._skip_deleted_offsets(cluster)
            elif error.code in _TOPIC_DELETED:
                await self._drop_deleted(cluster)
            else:
                raise
            # The same error may come back until metadata has propagated.
            await asyncio.sleep(_RETRY_BACKOFF_S)
            return {}
        await self._drop_recreated(cluster)
        return {partition: batches for partition, batches in fetched.items() if partition in self._positions}

    def _fetch_bytes(self) -> int:
        """Near the end of the ranges only what is left of them: more would be fetched and discarded."""
        left = sum(
            (self._ranges[partition].end - position) * self._bytes_per_offset[partition]
            for partition, position in self._positions.items()
        )
        return min(self._options.fetch_bytes, max(_FETCH_BYTES_MIN, int(left * 1.1)))

    def _advance(self, fetched: Mapping[TopicPartition, FetchedBatches]) -> list[Chunk]:
        chunks: list[Chunk] = []
        if any(len(batches.records) for batches in fetched.values()):
            # Set first: a partition may be empty because others used up max_bytes of the response.
            self._progress_ms = self._clock.monotonic_ms()
        for partition, batches in fetched.items():
            offset_range = self._ranges[partition]
            table = scan_batches(batches.records, offset_range.end)
            next_offset = table.next_offset
            if next_offset is None:
                if len(batches.records):
                    raise ProtocolError(
                        f"the broker returned {len(batches.records)} bytes of {partition} at offset "
                        f"{self._positions[partition]} without a complete batch"
                    )
                self._end_if_stuck(partition, batches)
                continue
            if next_offset <= self._positions[partition]:
                raise ProtocolError(
                    f"the broker returned batches of {partition} that end at offset {next_offset - 1}, "
                    f"before the fetch offset {self._positions[partition]}"
                )
            self._bytes_per_offset[partition] = table.bytes_used / (next_offset - int(table.base_offsets[0]))
            # Offsets before the fetch position may have been deleted meanwhile.
            rest = replace(offset_range, start=self._positions[partition])
            chunks.append(Chunk(rest, table, batches.aborted))
            self._move_to(partition, next_offset)
        return chunks

    def _move_to(self, partition: TopicPartition, offset: int) -> None:
        if offset >= self._ranges[partition].end:
            del self._positions[partition]
        else:
            self._positions[partition] = offset

    # -- data loss

    def _end_if_stuck(self, partition: TopicPartition, batches: FetchedBatches) -> None:
        """After an election the leader's log may end before the planned offset, for a moment or for good."""
        if self._clock.monotonic_ms() - self._progress_ms < self._options.client.request_timeout_ms:
            return
        read_committed = self._options.read_committed
        bound = batches.last_stable_offset if read_committed else batches.high_watermark
        self._lost(
            f"{partition} ends at offset {bound}, but offsets {self._positions[partition]} to "
            f"{self._ranges[partition].end - 1} existed when the query was planned"
        )
        del self._positions[partition]

    async def _skip_deleted_offsets(self, cluster: Cluster) -> None:
        offsets = Offsets(cluster)
        first = await offsets.find(dict.fromkeys(self._positions, EARLIEST))
        following = await offsets.find(dict.fromkeys(self._positions, LATEST))
        for partition, position in list(self._positions.items()):
            start, end = first[partition].offset, following[partition].offset
            if position < start:
                self._lost(
                    f"{partition} starts at offset {start} now: retention or a deletion removed offsets "
                    f"{position} to {min(start, self._ranges[partition].end) - 1}"
                )
                self._move_to(partition, start)
            elif position > end:
                self._lost(f"{partition} ends at offset {end} now: offset {position} does not exist")
                del self._positions[partition]

    async def _drop_deleted(self, cluster: Cluster) -> None:
        topics = {partition.topic for partition in self._positions}
        metadata = await cluster.metadata(topics)
        for partition in list(self._positions):
            topic = metadata.topics.get(partition.topic)
            if topic is None or topic.partition(partition.partition) is None:
                self._lost(f"{partition} does not exist anymore")
                del self._positions[partition]

    async def _drop_recreated(self, cluster: Cluster) -> None:
        for partition in list(self._positions):
            expected = self._ranges[partition].topic_id
            found = await cluster.topic_id(partition.topic)
            if found != expected and ZERO_UUID not in (found, expected):
                self._lost(f"topic {partition.topic} was deleted and recreated while it was read")
                del self._positions[partition]

    def _lost(self, what: str) -> None:
        report_loss(what, fail=self._options.fail_on_data_loss)


def scan_wire(ranges: tuple[OffsetRange, ...], options: SourceOptions) -> Iterator[Chunk]:
    """Every batch that contains offsets of the ranges, in order within each partition.

    A thread fetches while the task decodes.
    """
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
