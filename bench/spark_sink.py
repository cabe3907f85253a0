"""Writing topics from Spark: the cost of exactly once, and the latency of a record in a micro-batch."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from bench.measure import MB
from ruslo.client.librdkafka.consumer import ConsumedRecord, Consumer
from ruslo.client.librdkafka.producer import Producer
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DELIVERIES = ("at_least_once", "exactly_once")
WANTED_RATIO = 0.7
WANTED_OVERHEAD_S = 0.3
_BATCHES = 3
_WARM_UP = 5
_COPY_TIMEOUT_S = 180.0

SINK_HEADING = "## Writing topics"
SINK_SECTION = """A stream copies records of 1,000 bytes from one topic to another, in {batches} batches of
{records:,} records, measured from start to end. The modes alternate; the first round is a warm-up, and the
best of the other rounds is shown.

{table}"""
OVERHEAD_HEADING = "## End-to-end latency of a micro-batch"
OVERHEAD_SECTION = """A stream copies a topic to another exactly once, with trigger 0, one record at a
time, without other load: the time from the ack of the record until a read_committed consumer gets its copy.

{table}"""


class SinkLoad(NamedTuple):
    source: str
    target: str
    records: int
    size_bytes: int


def measure_sink(spark: SparkSession, bootstrap: str, load: SinkLoad, rounds: int) -> dict[str, float]:
    """Seconds by delivery."""
    best: dict[str, float] = {}
    for number in range(rounds + 1):
        for delivery in DELIVERIES:
            with _copy(
                spark, bootstrap, load.source, load.target, delivery, load.records // _BATCHES
            ) as query:
                start = time.monotonic()
                query.trigger(availableNow=True).start().awaitTermination()
                seconds = time.monotonic() - start
            print(f"sink {delivery}: {seconds:.2f} s", file=sys.stderr, flush=True)
            if number:
                best[delivery] = min(seconds, best.get(delivery, seconds))
    return best


def measure_overhead(
    spark: SparkSession, bootstrap: str, source: str, target: str, samples: int
) -> list[float]:
    """Seconds from a record's ack to its copy, one record at a time."""
    found: list[float] = []
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    with (
        _copy(spark, bootstrap, source, target, "exactly_once", None) as writer,
        Producer({**settings, "linger.ms": 0}) as producer,
        Consumer({**settings, "isolation.level": "read_committed", "fetch.max.wait.ms": 5}) as consumer,
    ):
        partitions = [TopicPartition(target, number) for number in consumer.partitions_for(target)]
        consumer.assign({partition: consumer.offset_range(partition)[1] for partition in partitions})
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            for number in range(_WARM_UP + samples):
                producer.send(source, b"%d" % number)
                producer.flush()
                acked = time.monotonic()
                _wait_for(consumer, b"%d" % number)
                if number >= _WARM_UP:
                    found.append(time.monotonic() - acked)
                # Random, to be independent of the batches of an idle query.
                time.sleep(random.uniform(0.05, 0.3))
        finally:
            query.stop()
    return found


def _wait_for(consumer: Consumer, value: bytes) -> None:
    deadline = time.monotonic() + _COPY_TIMEOUT_S
    while time.monotonic() < deadline:
        for event in consumer.poll(0.05):
            if isinstance(event, ConsumedRecord) and event.value == value:
                return
    raise RuntimeError(f"record {value!r} was not copied within {_COPY_TIMEOUT_S:g} s")


@contextmanager
def _copy(
    spark: SparkSession, bootstrap: str, source: str, target: str, delivery: str, per_batch: int | None
) -> Iterator[DataStreamWriter]:
    """A query that copies one topic to another, with a temporary checkpoint."""
    address = {"kafka.bootstrap.servers": bootstrap}
    reader = spark.readStream.format("ruslo").options(**address).option("subscribe", source)
    # A query resolves "latest" some time after its start.
    reader = reader.option("startingOffsets", "earliest")
    if per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(per_batch))
    with tempfile.TemporaryDirectory(prefix="ruslo-bench-", ignore_cleanup_errors=True) as folder:
        rows = reader.option("columns", "key,value").load()
        writer = rows.writeStream.format("ruslo").options(**address).option("topic", target)
        yield writer.option("delivery", delivery).option("checkpointLocation", folder)


def sink_table(best: dict[str, float], load: SinkLoad) -> str:
    lines = ["| delivery | MB/s | ratio | wanted |  |", "| --- " * 5 + "|"]
    for delivery, seconds in best.items():
        ratio = best[DELIVERIES[0]] / seconds
        is_base = delivery == DELIVERIES[0]
        wanted = "–" if is_base else f"≥ {WANTED_RATIO:g}×"
        reached = "" if is_base else "yes" if ratio >= WANTED_RATIO else "no"
        speed = load.records * load.size_bytes / seconds / MB
        lines.append(f"| `{delivery}` | {speed:,.0f} | {ratio:.2f}× | {wanted} | {reached} |")
    return "\n".join(lines)


def sink_section(best: dict[str, float], load: SinkLoad) -> str:
    return SINK_SECTION.format(
        batches=_BATCHES, records=load.records // _BATCHES, table=sink_table(best, load)
    )


def overhead_table(seconds: list[float]) -> str:
    median = statistics.median(seconds)
    late = statistics.quantiles(seconds, n=10)[-1]
    reached = "yes" if median <= WANTED_OVERHEAD_S else "no"
    return "\n".join(
        [
            "| records | median | 90 % | wanted (median) |  |",
            "| --- " * 5 + "|",
            f"| {len(seconds)} | {median:.2f} s | {late:.2f} s | ≤ {WANTED_OVERHEAD_S:g} s | {reached} |",
        ]
    )


def overhead_section(seconds: list[float]) -> str:
    return OVERHEAD_SECTION.format(table=overhead_table(seconds))
