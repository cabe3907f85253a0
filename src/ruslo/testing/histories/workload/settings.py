"""What the processes of a workload share: settings, passed on their command lines, and how they stop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Self

import msgspec

from ruslo.model.topics import TopicPartition

LIBRDKAFKA_SETTINGS: dict[str, str | int | float | bool] = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 2_000,
}
"""Short backoffs, because brokers restart during a workload."""


class WorkloadSettings(msgspec.Struct, frozen=True):
    bootstrap: str
    folder: str
    """The folder of the history."""
    topic: str
    partitions: int
    keys: int
    transaction_timeout_ms: int

    @property
    def history(self) -> Path:
        return Path(self.folder)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, index) for index in range(self.partitions)]

    @property
    def source(self) -> TopicPartition:
        """The partition whose offsets are committed in transactions. It is not actually read."""
        return TopicPartition(f"{self.topic}-source", 0)

    def client(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.bootstrap, **LIBRDKAFKA_SETTINGS}

    def to_argument(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        return msgspec.json.decode(argument, type=cls)


def group_of(transactional_id: str) -> str:
    """The group of a transactional id; only its current producer may commit its offset."""
    return f"group-of-{transactional_id}"


def stop_event() -> threading.Event:
    """An event that SIGTERM sets."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    # Ctrl-C in a terminal also reaches this process, but the workload stops its processes in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return stopping
