"""A consumer in its own process, which tests kill.

`committed` writes records to a table and commits their offsets to the broker afterwards: at least once.
`stored` writes its position in the same database transaction as the output: exactly once.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.clients.librdkafka import Settings, close_member

CLASSIC: Settings = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300}
PROTOCOLS: dict[str, Settings] = {
    "eager": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class ChaosGroup(NamedTuple):
    """A group of these consumers: its protocol, where positions are kept, and the folder of the output."""

    protocol: str
    positions: str  # "committed" or "stored"
    topic: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.positions}-{self.protocol}"

    def open_output(self) -> sqlite3.Connection:
        """Open the tables: a row for each applied record, and the next position of each partition."""
        output = sqlite3.connect(self.folder / f"{self.name}.db", isolation_level=None, timeout=60)
        output.execute("PRAGMA journal_mode = WAL")
        output.execute("PRAGMA synchronous = OFF")  # only processes are killed, not the machine
        output.execute("CREATE TABLE IF NOT EXISTS applied (partition INTEGER, offset INTEGER)")
        output.execute("CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next INTEGER)")
        return output

    def start_member(self, bootstrap: str) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-m", "tests.support.groups.chaos_consumer"]
        root = Path(__file__).resolve().parents[3]
        return subprocess.Popen([*module, bootstrap, *map(str, self)], cwd=root)

    @classmethod
    def from_arguments(cls, protocol: str, positions: str, topic: str, folder: str) -> Self:
        return cls(protocol, positions, topic, Path(folder))


class ChaosConsumer:
    """Reads records and applies them until it is stopped or killed."""

    def __init__(self, bootstrap: str, group: ChaosGroup) -> None:
        self._group = group
        self._output = group.open_output()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": group.positions == "committed",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                "log_level": 0,
                **PROTOCOLS[group.protocol],
            }
        )
        if group.positions == "stored":
            self._consumer.subscribe([group.topic], on_assign=self._assign_stored)
        else:
            self._consumer.subscribe([group.topic])

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            messages = self._consumer.consume(100, 0.1)
            read = [message for message in messages if message.error() is None]
            if read:
                self._apply(read)
        close_member(self._consumer)

    def _apply(self, messages: list[Message]) -> None:
        rows = [(message.partition(), message.offset()) for message in messages]
        self._output.execute("BEGIN IMMEDIATE")
        self._output.executemany("INSERT INTO applied VALUES (?, ?)", rows)
        if self._group.positions == "stored":
            self._output.executemany("INSERT OR REPLACE INTO positions VALUES (?, ? + 1)", rows)
        self._output.execute("COMMIT")
        if self._group.positions == "committed":
            self._store_offsets(messages)

    def _store_offsets(self, messages: list[Message]) -> None:
        for message in messages:
            try:
                self._consumer.store_offsets(message)
            except KafkaException as error:  # revoked: the next owner repeats it
                if error.args[0].code() != KafkaError._STATE:
                    raise

    def _assign_stored(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        stored: dict[int, int] = dict(self._output.execute("SELECT partition, next FROM positions"))
        for tp in partitions:
            tp.offset = stored.get(tp.partition, 0)
        if self._group.protocol == "eager":
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)


def main() -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    ChaosConsumer(sys.argv[1], ChaosGroup.from_arguments(*sys.argv[2:])).run(stopping)


if __name__ == "__main__":
    main()
