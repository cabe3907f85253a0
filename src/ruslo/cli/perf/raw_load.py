"""Load of ``ruslo perf`` through the native client, in whole batches."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ruslo.cli.arguments.client_settings import channel_settings
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
    from ruslo.cli.perf.run import Limits

_MAX_IN_FLIGHT = 5


async def raw_produce_load(
    bootstrap: str, topic: str, size: int, batch_bytes: int, compression: str, acks: int, limits: Limits
) -> Measured:
    """Send the same batch repeatedly, with several requests in flight per partition."""
    measured = Measured(latencies={"ack_ms": Latencies()})
    latencies, progress, payload = measured.latencies["ack_ms"], Progress(), random_payload(size)
    per_batch = max(1, batch_bytes // max(1, size))
    now_ms = time.time_ns() // 1_000_000
    codec = Codec[compression.upper()]
    batch = bytes(build_batch([Record(n, now_ms, None, payload) for n in range(per_batch)], codec=codec))
    sent = 0
    async with Cluster(bootstrap, settings=channel_settings()) as cluster:
        partitions = [
            TopicPartition(topic, p.partition)
            for p in (await cluster.metadata([topic])).topic(topic).partitions
        ]
        raw = RawClient(cluster)
        started_s = time.monotonic()

        async def produce_to(partition: TopicPartition) -> None:
            nonlocal sent
            while not limits.reached(sent, time.monotonic() - started_s):
                sent += per_batch
                sent_at = time.monotonic()
                await raw.produce({partition: batch}, acks=acks)
                done_at = time.monotonic()
                latencies.add(done_at - sent_at)
                measured.records += per_batch
                measured.size_bytes += per_batch * size
                measured.seconds = done_at - started_s
                progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))

        await asyncio.gather(
            *(produce_to(partition) for partition in partitions for _ in range(_MAX_IN_FLIGHT))
        )
    progress.clear()
    return measured


async def raw_consume_load(bootstrap: str, topic: str, limits: Limits) -> Measured:
    """Fetch batches from the start to the current end; count records by batch header."""
    measured, progress = Measured(), Progress()
    async with Cluster(bootstrap, settings=channel_settings()) as cluster:
        partitions = [
            TopicPartition(topic, p.partition)
            for p in (await cluster.metadata([topic])).topic(topic).partitions
        ]
        raw = RawClient(cluster)
        first_round = await raw.fetch(dict.fromkeys(partitions, 0), max_wait_ms=0, partition_max_bytes=1)
        positions = {p: response.log_start_offset for p, response in first_round.items()}
        ends = {p: response.high_watermark for p, response in first_round.items()}
        started_s = time.monotonic()
        while not limits.reached(measured.records, time.monotonic() - started_s):
            behind = {p: position for p, position in positions.items() if position < ends[p]}
            if not behind:
                break
            for partition, response in (await raw.fetch(behind)).items():
                for _, header in iter_batches(response.records):
                    if header.last_offset >= positions[partition]:
                        positions[partition] = header.last_offset + 1
                        measured.records += header.count
                        measured.size_bytes += header.size
            measured.seconds = time.monotonic() - started_s
            progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))
    progress.clear()
    return measured
