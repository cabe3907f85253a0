"""Fetches the batches of spans, with the next answer on its way while the last one is used.

What may happen meanwhile: leaders move (the client finds the new one), retention overtakes the reader, the
topic is deleted or created anew, or the log was cut by an unclean election. The last three lose records,
and failOnDataLoss decides what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
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
from ruslo.pipeline.source.planning import Span
from ruslo.pipeline.source.positions import EARLIEST, LATEST

_MAX_WAIT_MS: Final = 500
_CHUNKS_AHEAD: Final = 2
"""Chunks that may wait for the decoder; with the one it works on they are what a task holds in memory."""
_PAUSE_S: Final = 0.05
_SMALLEST_FETCH_BYTES: Final = 64 * 1024
_VANISHED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class SpanFetcher:
    """Runs on an event loop; ``give`` gets the chunks, ``taken`` says that one of them was used."""

    def __init__(
        self, spans: tuple[Span, ...], options: SourceOptions, give: Callable[[Chunk], None]
    ) -> None:
        self._spans = {span.partition: span for span in spans}
        assert len(self._spans) == len(spans), "a task has one span of a partition"
        self._positions = {span.partition: span.start for span in spans}
        self._bytes_per_offset = {span.partition: span.bytes_per_offset for span in spans}
        self._options = options
        self._give = give
        self._room = asyncio.Semaphore(_CHUNKS_AHEAD)
        self._running: asyncio.Task[None] | None = None
        self._clock = SystemClock()
        self._progress_ms = 0

    def taken(self) -> None:
        self._room.release()

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        self._running = asyncio.ensure_future(self._fetch_all())
        try:
            await self._running
        except asyncio.CancelledError:
            # The reader has what it needs, or has failed; nobody waits for the rest.
            return

    async def _fetch_all(self) -> None:
        async with self._options.client.new_cluster() as cluster:
            self._progress_ms = self._clock.monotonic_ms()
            next_round = asyncio.ensure_future(self._round(cluster))
            try:
                while self._positions:
                    chunks = self._advance(await next_round)
                    if self._positions:
                        next_round = asyncio.ensure_future(self._round(cluster))
                    for chunk in chunks:
                        await self._room.acquire()
                        self._give(chunk)
                        # The time that a slow reader took says nothing about the leaders.
                        self._progress_ms = self._clock.monotonic_ms()
            finally:
                next_round.cancel()

    async def _round(self, cluster: Cluster) -> Mapping[TopicPartition, FetchedBatches]:
        try:
            answers = await RawClient(cluster).fetch(
                dict(self._positions),
                max_wait_ms=_MAX_WAIT_MS,
                max_bytes=self._options.fetch_bytes,
                partition_max_bytes=self._fetch_bytes(),
                read_committed=self._options.read_committed,
            )
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._skip_what_is_gone(cluster)
            elif error.code in _VANISHED:
                await self._drop_vanished(cluster)
            else:
                raise
            # What the next round meets may be the same while the cluster is in motion.
            await asyncio.sleep(_PAUSE_S)
            return {}
        await self._drop_recreated(cluster)
        return {partition: answer for partition, answer in answers.items() if partition in self._positions}

    def _fetch_bytes(self) -> int:
        """Near the end of a span no more than is left of it: the rest would be fetched in vain."""
        left = sum(
            (self._spans[partition].end - position) * self._bytes_per_offset[partition]
            for partition, position in self._positions.items()
        )
        return min(self._options.fetch_bytes, max(_SMALLEST_FETCH_BYTES, int(left * 1.1)))

    def _advance(self, answers: Mapping[TopicPartition, FetchedBatches]) -> list[Chunk]:
        chunks: list[Chunk] = []
        if any(len(answer.records) for answer in answers.values()):
            # Before the others are judged: theirs may be empty because these left no room in the answer.
            self._progress_ms = self._clock.monotonic_ms()
        for partition, answer in answers.items():
            span = self._spans[partition]
            table = scan_batches(answer.records, span.end)
            next_offset = table.next_offset
            if next_offset is None:
                if len(answer.records):
                    raise ProtocolError(
                        f"the broker answered {len(answer.records)} bytes of {partition} at offset "
                        f"{self._positions[partition]} that are no whole batch"
                    )
                self._end_if_stuck(partition, answer)
                continue
            if next_offset <= self._positions[partition]:
                raise ProtocolError(
                    f"the broker answered batches of {partition} that end at offset {next_offset - 1}, "
                    f"asked for {self._positions[partition]}"
                )
            self._bytes_per_offset[partition] = table.bytes_used / (next_offset - int(table.base_offsets[0]))
            # Not from the span's start: what lies before the position may have been deleted meanwhile.
            rest = replace(span, start=self._positions[partition])
            chunks.append(Chunk(rest, table, answer.aborted))
            self._move_to(partition, next_offset)
        return chunks

    def _move_to(self, partition: TopicPartition, offset: int) -> None:
        if offset >= self._spans[partition].end:
            del self._positions[partition]
        else:
            self._positions[partition] = offset

    # -- what may be lost

    def _end_if_stuck(self, partition: TopicPartition, answer: FetchedBatches) -> None:
        """After an election a leader may know less than was promised, for a moment or for good."""
        if self._clock.monotonic_ms() - self._progress_ms < self._options.client.request_timeout_ms:
            return
        read_committed = self._options.read_committed
        bound = answer.last_stable_offset if read_committed else answer.high_watermark
        self._lost(
            f"{partition} ends at offset {bound}, but offsets {self._positions[partition]} to "
            f"{self._spans[partition].end - 1} were there when the query was planned"
        )
        del self._positions[partition]

    async def _skip_what_is_gone(self, cluster: Cluster) -> None:
        offsets = Offsets(cluster)
        first = await offsets.find(dict.fromkeys(self._positions, EARLIEST))
        following = await offsets.find(dict.fromkeys(self._positions, LATEST))
        for partition, position in list(self._positions.items()):
            start, end = first[partition].offset, following[partition].offset
            if position < start:
                self._lost(
                    f"{partition} begins at offset {start} now: retention or a deletion took offsets "
                    f"{position} to {min(start, self._spans[partition].end) - 1}"
                )
                self._move_to(partition, start)
            elif position > end:
                self._lost(f"{partition} ends at offset {end} now, offset {position} is gone")
                del self._positions[partition]

    async def _drop_vanished(self, cluster: Cluster) -> None:
        topics = {partition.topic for partition in self._positions}
        metadata = await cluster.metadata(topics)
        for partition in list(self._positions):
            topic = metadata.topics.get(partition.topic)
            if topic is None or topic.partition(partition.partition) is None:
                self._lost(f"{partition} does not exist any more")
                del self._positions[partition]

    async def _drop_recreated(self, cluster: Cluster) -> None:
        for partition in list(self._positions):
            expected = self._spans[partition].topic_id
            found = await cluster.topic_id(partition.topic)
            if found != expected and ZERO_UUID not in (found, expected):
                self._lost(f"topic {partition.topic} was deleted and created anew while it was read")
                del self._positions[partition]

    def _lost(self, what: str) -> None:
        report_loss(what, fail=self._options.fail_on_data_loss)
