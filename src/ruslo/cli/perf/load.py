"""Load of ``ruslo perf`` through librdkafka, and its measurements."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruslo.cli.terminal.latencies import Latencies
from ruslo.cli.terminal.progress import Progress
from ruslo.client.librdkafka.consumer import START, ConsumedRecord, Consumer
from ruslo.client.librdkafka.producer import Producer, RecordMetadata
from ruslo.client.settings.setting import ConfigValue
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.cli.perf.run import Limits

_WARM_UP_RECORDS = 10
"""Records that a latency run sends first, to exclude connection setup and metadata."""


@dataclass(slots=True)
class Measured:
    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    failed: int = 0
    first_error: KafkaError | None = None
    latencies: dict[str, Latencies] = field(default_factory=dict)

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.size_bytes / self.seconds / 1e6 if self.seconds else 0.0

    def rates(self) -> str:
        return f"{self.records:,} records, {self.records_per_s:,.0f} records/s, {self.mb_per_s:,.1f} MB/s"


def random_payload(size: int) -> bytes:
    """Half random, half constant bytes, which compress about as well as real events."""
    return os.urandom(size // 2) + b"x" * (size - size // 2)


def produce_load(
    config: Mapping[str, ConfigValue], topic: str, size: int, rate: float | None, limits: Limits
) -> Measured:
    measured = Measured(latencies={"ack_ms": Latencies()})
    acks, progress, payload = measured.latencies["ack_ms"], Progress(), random_payload(size)

    def delivered(error: KafkaError | None, record: RecordMetadata) -> None:
        if error is not None:
            measured.failed += 1
            measured.first_error = measured.first_error or error
            return
        measured.records += 1
        measured.size_bytes += size
        acks.add(record.latency_s)

    with Producer(config) as producer:
        started_s = time.monotonic()
        sent = 0
        while not limits.reached(sent, time.monotonic() - started_s):
            producer.produce(topic, payload, on_delivery=delivered)
            sent += 1
            if rate is not None:
                time.sleep(max(0.0, sent / rate - (time.monotonic() - started_s)))
            if sent % 256 == 0:
                measured.seconds = time.monotonic() - started_s
                progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))
        producer.flush()
        measured.seconds = time.monotonic() - started_s
    progress.clear()
    return measured


def consume_load(config: Mapping[str, ConfigValue], topic: str, limits: Limits) -> Measured:
    """Read from the start to the current end of the topic, or up to a limit."""
    measured, progress = Measured(), Progress()
    with Consumer(config) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        ends = {partition: consumer.offset_range(partition) for partition in partitions}
        still_open = {partition for partition, (low, high) in ends.items() if low < high}
        consumer.assign(dict.fromkeys(sorted(still_open), START))
        started_s = time.monotonic()
        while still_open and not limits.reached(measured.records, time.monotonic() - started_s):
            for event in consumer.poll_events(0.5):
                partition = TopicPartition(event.topic, event.partition)
                if isinstance(event, ConsumedRecord):
                    measured.records += 1
                    measured.size_bytes += len(event.value or b"") + len(event.key or b"")
                if event.offset + 1 >= ends[partition][1]:
                    still_open.discard(partition)
            measured.seconds = time.monotonic() - started_s
            progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))
    progress.clear()
    return measured


def latency_load(
    producer_config: Mapping[str, ConfigValue],
    consumer_config: Mapping[str, ConfigValue],
    partition: TopicPartition,
    size: int,
    limits: Limits,
) -> Measured:
    """Send one record at a time; time acknowledgement and delivery to a consumer alternately."""
    measured = Measured(latencies={"ack_ms": Latencies(), "end_to_end_ms": Latencies()})
    progress, payload = Progress(), random_payload(size)
    with Producer(producer_config) as producer, Consumer(consumer_config) as consumer:
        # Not END, which librdkafka resolves later, perhaps after the first record.
        _, high = consumer.offset_range(partition)
        consumer.assign({partition: high})

        def send_one(name: str | None) -> None:
            sent_at = time.monotonic()
            producer.send(partition.topic, payload, partition=partition.partition)
            if name == "end_to_end_ms":
                _wait_for_one(consumer)
                measured.latencies[name].add(time.monotonic() - sent_at)
                producer.flush()
                return
            producer.flush()
            if name is not None:
                measured.latencies[name].add(time.monotonic() - sent_at)
            _wait_for_one(consumer)

        for _ in range(_WARM_UP_RECORDS):
            send_one(None)
        started_s = time.monotonic()
        while not limits.reached(measured.records, time.monotonic() - started_s):
            send_one("end_to_end_ms" if measured.records % 2 else "ack_ms")
            measured.records += 1
            measured.size_bytes += size
            measured.seconds = time.monotonic() - started_s
            progress.tick(measured.rates, lambda: limits.share(measured.records, measured.seconds))
    progress.clear()
    return measured


def _wait_for_one(consumer: Consumer) -> None:
    while not consumer.poll(1.0):
        pass
