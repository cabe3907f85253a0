"""The loop of the demo: produce events, read them and their results back, and count."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ruslo.cli.demo.events import TOPICS, Event, EventSource, summarize
from ruslo.cli.demo.ledger import Ledger
from ruslo.cli.demo.results import Results
from ruslo.cli.terminal.latencies import Latencies
from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.librdkafka.producer import Producer, RecordMetadata
from ruslo.client.settings.setting import ConfigValue
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition

_SHOW_INTERVAL_S = 0.25
_READ_BACK_TIMEOUT_S = 15.0
_LAST_EVENTS = 6


class PartitionCount:
    __slots__ = ("acked", "next_offset", "read")

    def __init__(self, next_offset: int) -> None:
        self.acked = 0
        self.read = 0
        self.next_offset = next_offset


class DemoRun:
    def __init__(self, bootstrap: str, rate: float) -> None:
        self.config: Mapping[str, ConfigValue] = {
            "bootstrap.servers": bootstrap,
            "client.id": "ruslo-demo",
            "log_level": 2,
        }
        self.rate = rate
        self.sent = 0
        self.stopping = False
        self.failed: list[KafkaError] = []
        self.partitions: dict[TopicPartition, PartitionCount] = {}
        self.last_events: deque[str] = deque(maxlen=_LAST_EVENTS)
        self.end_to_end = Latencies()
        self.started_at = time.monotonic()
        self.ledger = Ledger()
        self.results = Results()
        self.result_starts: dict[TopicPartition, int] = {}
        self._source = EventSource()
        self._events = iter(self._source)
        self._producer = Producer({**self.config, "linger.ms": 5})
        self._consumer = Consumer(
            {**self.config, "max.poll.records": 1000, "isolation.level": "read_committed"}
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    @property
    def acked(self) -> int:
        return sum(count.acked for count in self.partitions.values())

    @property
    def read(self) -> int:
        return sum(count.read for count in self.partitions.values())

    @property
    def complete(self) -> bool:
        """True if as many events were read from every partition as were acknowledged."""
        return not self.failed and all(count.acked == count.read for count in self.partitions.values())

    @property
    def has_all_results(self) -> bool:
        """True if all results have been read at least once; the final check also finds duplicates."""
        return (
            len(self.results.receipts) >= self.ledger.receipts_due
            and self.results.totals == self.ledger.totals
        )

    def prepare(self, result_topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Start at the end of all topics, so that only events of this run count; return the offsets."""
        for topic in TOPICS:
            for partition, offset in self._ends(topic).items():
                self.partitions[partition] = PartitionCount(offset)
        for topic in result_topics:
            self.result_starts |= self._ends(topic)
        starts = {p: count.next_offset for p, count in self.partitions.items()} | self.result_starts
        self._consumer.assign(starts)
        self.started_at = time.monotonic()
        return starts

    def _ends(self, topic: str) -> dict[TopicPartition, int]:
        partitions = [TopicPartition(topic, number) for number in self._consumer.partitions_for(topic)]
        return {partition: self._consumer.offset_range(partition)[1] for partition in partitions}

    def run(self, seconds: float | None, show: Callable[[DemoRun], None]) -> None:
        next_show = 0.0
        while not self.stopping and (seconds is None or self.seconds < seconds):
            self._send_due()
            self._read(0.02)
            if self.seconds >= next_show:
                next_show = self.seconds + _SHOW_INTERVAL_S
                show(self)

    def finish(self) -> None:
        """Send the last payments, and wait until all events are acknowledged and read back."""
        for event in self._source.last_payments():
            self._send(event)
        self._producer.flush()
        deadline = time.monotonic() + _READ_BACK_TIMEOUT_S
        while self.read < self.acked and time.monotonic() < deadline:
            self._read(0.2)

    def follow(self) -> int:
        """Read results for a moment; return the number of records."""
        return self._read(_SHOW_INTERVAL_S)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()

    def _send_due(self) -> None:
        due = int(self.seconds * self.rate) - self.sent
        # After a pause, such as a suspended laptop, continue at the rate instead of sending a burst.
        if due > self.rate:
            self.started_at += (due - 1) / self.rate
            due = 1
        for _ in range(due):
            self._send(next(self._events))

    def _send(self, event: Event) -> None:
        def delivered(error: KafkaError | None, record: RecordMetadata) -> None:
            if error is not None:
                self.failed.append(error)
                return
            self.partitions[TopicPartition(record.topic, record.partition)].acked += 1
            if event.sale is not None:
                self.ledger.acked(event.topic, event.sale)

        self._producer.produce(event.topic, event.value, key=event.key, on_delivery=delivered)
        self.sent += 1

    def _read(self, timeout_s: float) -> int:
        events = self._consumer.poll(timeout_s)
        for event in events:
            partition = TopicPartition(event.topic, event.partition)
            if partition in self.result_starts:
                self.results.add(event)
                continue
            count = self.partitions[partition]
            count.read += 1
            count.next_offset = event.offset + 1
            self.end_to_end.add(max(0.0, time.time() - event.timestamp_ms / 1000))
            topic = event.topic.removeprefix("demo.")
            self.last_events.append(f"{topic:<9} {summarize(event.value or b'{}')}")
        return len(events)
