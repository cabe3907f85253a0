"""An idempotent producer that runs continuously, and the check that no acknowledged record is lost."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition


@dataclass
class Acks:
    """The acknowledged records of one partition, in the order of the acks."""

    numbers: list[int] = field(default_factory=list)
    last_s: float = 0.0
    longest_stall_s: float = 0.0


IDEMPOTENT = {"enable.idempotence": True, "linger.ms": 1, "delivery.timeout.ms": 120_000}


class SteadyProducer:
    """Produces numbered records to every partition of a topic with acks=all until it is stopped."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        pause_s: float = 0.002,
        settings: Mapping[str, str | int | bool] = IDEMPOTENT,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.failed: list[str] = []
        self.acked: dict[int, Acks] = defaultdict(Acks)
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._next_number = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings})
        self._thread = threading.Thread(target=self._run, name="steady-producer")

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Return when every record is acknowledged or has failed."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(120)
        if left:
            self.failed.append(f"{left} records neither acknowledged nor refused")

    def count(self) -> int:
        return sum(len(acks.numbers) for acks in self.acked.values())

    def wait_for_more(self, records: int, timeout_s: float = 90) -> None:
        wanted = self.count() + records
        deadline = time.monotonic() + timeout_s
        while self.count() < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{wanted - self.count()} of {records} more records were not acknowledged")
            time.sleep(0.02)

    def wait_for_every_partition(self, timeout_s: float = 90) -> None:
        """Wait until every partition has acknowledged a record that was sent after this call."""
        number = self._next_number
        deadline = time.monotonic() + timeout_s
        for partition in range(self.partitions):
            acks = self.acked[partition]
            while not acks.numbers or acks.numbers[-1] <= number:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partition {partition} acknowledges nothing")
                time.sleep(0.01)

    def longest_stall_s(self) -> float:
        return max((acks.longest_stall_s for acks in self.acked.values()), default=0.0)

    def stalled_partitions(self, longer_than_s: float = 1.0) -> list[int]:
        return sorted(
            partition for partition, acks in self.acked.items() if acks.longest_stall_s > longer_than_s
        )

    def forget_stalls(self) -> None:
        for acks in self.acked.values():
            acks.longest_stall_s = 0.0

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(self.partitions):
                self._send(partition, self._next_number)
            self._next_number += 1
            self._pause()

    def _pause(self) -> None:
        """Acks during the wait are recorded and do not end it."""
        end_s = time.monotonic() + self._pause_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._producer.poll(left_s)

    def _send(self, partition: int, number: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self.topic, str(number).encode(), partition=partition, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(f"partition {message.partition()}, {message.value()!r}: {error}")
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        acks = self.acked[partition]
        acks.numbers.append(int(value))
        now_s = time.monotonic()
        if acks.last_s:
            acks.longest_stall_s = max(acks.longest_stall_s, now_s - acks.last_s)
        acks.last_s = now_s

    def check(self, bootstrap: str) -> None:
        """Check that every acknowledged record is stored once and in order, and that none failed."""
        assert self.failed == []
        for partition in range(self.partitions):
            stored = read_numbers(bootstrap, self.topic, partition)
            misplaced = [
                f"{before}, then {after}, at offset {offset}"
                for offset, (before, after) in enumerate(pairwise(stored), 1)
                if after <= before
            ]
            assert not misplaced, f"partition {partition}: a record twice, or out of order: {misplaced[:5]}"
            assert self.acked[partition].numbers == stored, f"partition {partition}: acked and stored differ"


def read_numbers(bootstrap: str, topic: str, partition: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
        }
    )
    numbers: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, f"partition {partition} could not be read to its end"
            for message in consumer.consume(10_000, 0.5):
                error = message.error()
                if error is None:
                    numbers.append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return numbers
    finally:
        consumer.close()
