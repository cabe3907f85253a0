"""Load by the native client: whole batches, so that the broker is measured rather than the client."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ruslo.cli.perf.load import Measured, random_payload
from ruslo.cli.terminal.latencies import Latencies
from ruslo.cli.terminal.progress import Progress
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import RawClient
from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.reader import iter_batches
from ruslo.records.record import Record

if TYPE_CHECKING:
    from ruslo.cli.perf.perf import Limits

_IN_FLIGHT = 5


async def raw_produce_load(
    bootstrap: str, topic: str, size: int, batch_bytes: int, compression: str, acks: int, limits: Limits
) -> Measured:
    """The same batch again and again, a few requests in flight for each partition."""
    measured = Measured(latencies={"ack_ms": Latencies()})
    latencies, progress, payload = measured.latencies["ack_ms"], Progress(), random_payload(size)
    per_batch = max(1, batch_bytes // max(1, size))
    now_ms = time.time_ns() // 1_000_000
    codec = Codec[compression.upper()]
    batch = bytes(build_batch([Record(n, now_ms, None, payload) for n in range(per_batch)], codec=codec))
    sent = 0
    async with Cluster(bootstrap) as cluster:
        partitions = [
            TopicPartition(topic, p.partition)
            for p in (await cluster.metadata([topic])).topic(topic).partitions
        ]
        raw = RawClient(cluster)
        begun = time.monotonic()

        async def lane(partition: TopicPartition) -> None:
            nonlocal sent
            while not limits.reached(sent, time.monotonic() - begun):
                sent += per_batch
                sent_at = time.monotonic()
                await raw.produce({partition: batch}, acks=acks)
                done_at = time.monotonic()
                latencies.add(done_at - sent_at)
                measured.records += per_batch
                measured.size_bytes += per_batch * size
                measured.seconds = done_at - begun
                progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))

        await asyncio.gather(*(lane(partition) for partition in partitions for _ in range(_IN_FLIGHT)))
    progress.clear()
    return measured


async def raw_consume_load(bootstrap: str, topic: str, limits: Limits) -> Measured:
    """Fetch batches from the start to the end that the topic had, counting by their headers."""
    measured, progress = Measured(), Progress()
    async with Cluster(bootstrap) as cluster:
        partitions = [
            TopicPartition(topic, p.partition)
            for p in (await cluster.metadata([topic])).topic(topic).partitions
        ]
        raw = RawClient(cluster)
        first_round = await raw.fetch(dict.fromkeys(partitions, 0), max_wait_ms=0, partition_max_bytes=1)
        positions = {p: answer.log_start_offset for p, answer in first_round.items()}
        ends = {p: answer.high_watermark for p, answer in first_round.items()}
        begun = time.monotonic()
        while not limits.reached(measured.records, time.monotonic() - begun):
            behind = {p: position for p, position in positions.items() if position < ends[p]}
            if not behind:
                break
            for partition, answer in (await raw.fetch(behind)).items():
                for _, header in iter_batches(answer.records):
                    if header.last_offset >= positions[partition]:
                        positions[partition] = header.last_offset + 1
                        measured.records += header.count
                        measured.size_bytes += header.size
            measured.seconds = time.monotonic() - begun
            progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))
    progress.clear()
    return measured
