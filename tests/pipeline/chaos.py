"""Kills Spark drivers, their Python workers and brokers, and counts the records that arrive."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.model.topics import TopicPartition
from tests.support.brokers.node import Node

PARTITIONS = 3
SOURCE, TARGET = "source", "target"


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class Driver:
    """The copy job in its own process and session, with its JVM and Python workers."""

    def __init__(
        self,
        bootstrap: str,
        checkpoint: Path,
        delivery: str,
        records_per_batch: int,
        share_group: str | None = None,
    ) -> None:
        job = [sys.executable, "-m", "tests.pipeline.copy_job", bootstrap, SOURCE, TARGET]
        self._command = [*job, str(checkpoint), delivery, str(records_per_batch)]
        if share_group is not None:
            self._command.append(share_group)
        self._process: subprocess.Popen[str] | None = None
        self._started = threading.Event()
        self.lines: list[str] = []

    def start(self) -> None:
        self._started.clear()
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.lines.append(line.rstrip())
                if line.startswith("started"):
                    self._started.set()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_started(self) -> None:
        """Wait until the query runs."""
        while not self._started.wait(0.05):
            assert self.running, f"the driver ended before its query: {self.tail()}"

    def wait_done(self, timeout_s: float) -> None:
        assert self._process is not None
        code = self._process.wait(timeout_s)
        assert code == 0, f"the driver ended with {code}: {self.tail()}"

    def kill(self, *, leave_workers: bool = False) -> None:
        """kill -9 the whole driver, or all but its Python workers, which then live a little longer."""
        assert self._process is not None
        for process in self._family():
            if not (leave_workers and "pyspark.daemon" in process.command):
                _kill(process.pid)
        self._process.wait(30)
        if leave_workers:
            deadline = time.monotonic() + 30
            while self._family() and time.monotonic() < deadline:
                time.sleep(0.05)

    def kill_a_worker(self, rng: random.Random) -> bool:
        """kill -9 one Python worker: that of a task, of the source, or of the commit."""
        family = self._family()
        daemons = {process.pid for process in family if "pyspark.daemon" in process.command}
        workers = [process.pid for process in family if process.pid in daemons and process.parent in daemons]
        if not workers:
            return False
        _kill(rng.choice(workers))
        return True

    def close(self) -> None:
        for process in self._family():
            _kill(process.pid)
        if self._process is not None:
            self._process.wait(30)

    def tail(self) -> str:
        return "\n".join(self.lines[-30:])

    def _family(self) -> list[Process]:
        """All processes of the driver's session."""
        assert self._process is not None
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                with suppress(OSError):  # Processes may end in between.
                    if os.getsid(int(entry)) == self._process.pid:
                        stat = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                        command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ")
                        found.append(Process(int(entry), int(stat[1]), command.decode(errors="replace")))
        return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Chaos:
    """Faults of a copy job: ``run`` injects them, restarts what was killed and waits for the end."""

    node: Node
    checkpoint: Path
    delivery: str
    records: int
    records_per_batch: int
    driver_kills: int
    worker_kills: int = 0
    broker_kills: int = 0
    seed: int = 1
    share_group: str | None = None
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._driver = Driver(
            self.node.bootstrap, self.checkpoint, self.delivery, self.records_per_batch, self.share_group
        )
        self._watcher = Watcher(self.node.bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.close()
        self._watcher.close()

    def run(self, timeout_s: float) -> None:
        steps: list[Callable[[], None]] = [self._kill_driver] * self.driver_kills
        steps += [self._kill_worker] * self.worker_kills + [self._kill_broker] * self.broker_kills
        self._rng.shuffle(steps)
        self._driver.start()
        for step in steps:
            self._driver.wait_started()
            step()
        self._driver.wait_done(timeout_s)

    def _kill_driver(self) -> None:
        """Kill alternately when records of a batch arrive and at a random moment after it."""
        for _ in range(self._rng.randint(1, 8)):
            self._watcher.wait_for_records(lambda: self._driver.running)
        if self.done["driver"] % 2:
            time.sleep(self._rng.uniform(0, 1))
        assert self._driver.running, "the job finished before all kills: give it more records"
        self._driver.kill(leave_workers=self.done["driver"] % 3 == 2)
        self.done["driver"] += 1
        self._driver.start()

    def _kill_worker(self) -> None:
        time.sleep(self._rng.uniform(0, 1))
        while not self._driver.kill_a_worker(self._rng):
            time.sleep(0.02)
        self.done["worker"] += 1

    def _kill_broker(self) -> None:
        self._watcher.wait_for_records(lambda: self._driver.running)
        self.node.kill()
        time.sleep(self._rng.uniform(0, 1))
        self.node.start()
        self.done["broker"] += 1


class Watcher:
    """A consumer that waits for records in the target, including those of open transactions."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._admin = Admin(bootstrap)

    def wait_for_records(self, is_running: Callable[[], bool]) -> None:
        self._runner.run(self._wait_for_records(is_running))

    async def _wait_for_records(self, is_running: Callable[[], bool]) -> None:
        before = await self._end()
        while is_running() and await self._end() == before:
            pass

    async def _end(self) -> int:
        expected = {TopicPartition(TARGET, number): Spec.LATEST for number in range(PARTITIONS)}
        return sum(found.offset for found in (await self._admin.offsets.find(expected)).values())

    def close(self) -> None:
        self._runner.run(self._admin.cluster.close())
        self._runner.close()


def make_topics(bootstrap: str, records: int) -> None:
    """Create a source with numbered records and an empty target with as many partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
        future.result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "partitioner": "murmur2_random",
            # The queue must hold all records, because this loop does not wait for a slow broker.
            "queue.buffering.max.messages": records,
        }
    )
    for number in range(records):
        producer.produce(SOURCE, key=str(number % 1000).encode(), value=str(number).encode())
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def read_committed(bootstrap: str, topic: str) -> list[list[int]]:
    """The numbers that a read_committed consumer reads from each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([ClientPartition(topic, number, 0) for number in range(PARTITIONS)])
    seen: list[list[int]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, timeout=1):
            partition = message.partition()
            assert partition is not None
            if message.error() is not None:
                ended.add(partition)
            else:
                seen[partition].append(int(message.value() or b""))
    consumer.close()
    return seen
