"""Writer and reader processes, killed and restarted at random, and the final audit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from random import Random
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.anomalies import Verdict
from ruslo.testing.histories.checker import check
from ruslo.testing.histories.events import NO_OFFSET, UNSTABLE, End, FetchOffsets, Isolation, Kind
from ruslo.testing.histories.files import Recorder, load
from ruslo.testing.histories.workload.reader import HistoryReader
from ruslo.testing.histories.workload.settings import WorkloadSettings, group_of

_PACKAGE = "ruslo.testing.histories.workload"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0
"""Processes that take longer to stop are killed; the checker treats that as any other kill."""
READ_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 10.0
STABLE_TIMEOUT_S = 20.0
"""How long the audit waits for the last stable offsets after the longest transaction timeout."""


class WorkloadFailed(RusloError):
    """The system under test did not respond, so it could not be checked."""


class Workload:
    """``with Workload(settings) as workload`` runs writers and readers; ``audit`` stops them and checks.

    ``inject_fault`` kills or pauses a writer; the caller injects faults into brokers.
    """

    def __init__(
        self, settings: WorkloadSettings, *, writers: int = 4, readers: int = 1, seed: int | None = None
    ) -> None:
        self.settings = settings
        self._ids = [f"{settings.topic}-writer-{number}" for number in range(writers)]
        self._readers_each = readers
        self._random = Random(seed)
        self._output = Path(settings.folder) / "output.log"
        self._instances = count(1)
        self._writers: dict[str, list[subprocess.Popen[bytes]]] = {each: [] for each in self._ids}
        """Processes by transactional id, the newest one last."""
        self._readers: list[subprocess.Popen[bytes]] = []
        self.kills = self.zombies = 0

    def __enter__(self) -> Self:
        self._create_topics()
        for transactional_id in self._ids:
            self._start_writer(transactional_id)
        for isolation in Isolation:
            for number in range(self._readers_each):
                name = f"{isolation}-{number}"
                self._readers.append(self._start("reader", str(isolation), name))
        try:
            self._wait_for_first_transactions()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._kill()

    # -- faults ----------------------------------------------------------------------------------------------

    def inject_fault(self) -> None:
        """Kill a writer, or pause it, and start another one with its transactional id."""
        transactional_id = self._random.choice(self._ids)
        running = [each for each in self._writers[transactional_id] if each.poll() is None]
        for paused in running[:-1]:
            paused.send_signal(signal.SIGCONT)
        if running and self._random.random() < 0.5:
            running[-1].kill()
            self.kills += 1
        elif running:
            running[-1].send_signal(signal.SIGSTOP)
            self.zombies += 1
        self._start_writer(transactional_id)

    def restart_writers(self) -> None:
        """Replace writers that ended because they were fenced."""
        for transactional_id, instances in self._writers.items():
            if all(each.poll() is not None for each in instances):
                self._start_writer(transactional_id)

    # -- the end ---------------------------------------------------------------------------------------------

    def audit(self) -> Verdict:
        """Stop all processes, read all partitions, and check. The system must be healthy again."""
        self._stop()
        with Recorder(self.settings.history, "auditor") as recorder:
            ends = self._wait_for_the_end(recorder)
            for isolation in Isolation:
                self._read_all(isolation, ends[isolation], recorder)
            for transactional_id in self._ids:
                self._fetch_offset(group_of(transactional_id), recorder)
        return check(load(self.settings.history))

    def _stop(self) -> None:
        for process in self._processes():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self._processes():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_for_the_end(self, recorder: Recorder) -> dict[Isolation, dict[TopicPartition, int]]:
        """Wait until open transactions of killed writers have timed out; those left after that hang."""
        readers = {isolation: HistoryReader(self.settings, isolation, recorder) for isolation in Isolation}
        deadline = time.monotonic() + self.settings.transaction_timeout_ms / 1000 + STABLE_TIMEOUT_S
        while time.monotonic() < deadline:
            stable_offsets, high_watermarks = (reader.list_ends() for reader in readers.values())
            if stable_offsets is not None and stable_offsets == high_watermarks:
                break
            time.sleep(0.2)
        final = {isolation: reader.list_ends(final=True) for isolation, reader in readers.items()}
        for reader in readers.values():
            reader.close()
        found = {isolation: ends for isolation, ends in final.items() if ends is not None}
        if len(found) < len(final):
            raise WorkloadFailed(
                f"{self.settings.bootstrap} did not return the end offsets: check that its brokers run"
            )
        return found

    def _read_all(self, isolation: Isolation, ends: dict[TopicPartition, int], recorder: Recorder) -> None:
        reader = HistoryReader(self.settings, isolation, recorder)
        deadline = time.monotonic() + READ_TIMEOUT_S
        while reader.at_end != set(self.settings.topic_partitions) and time.monotonic() < deadline:
            reader.poll(final_ends=ends)
        reader.close()

    def _fetch_offset(self, group: str, recorder: Recorder) -> None:
        consumer = Consumer(
            {**self.settings.client(), "group.id": group, "isolation.level": "read_committed"}
        )
        source = self.settings.source
        recorder.invoke(FetchOffsets(group, final=True))
        try:
            (found,) = consumer.committed([ClientPartition(source.topic, source.partition)], CALL_TIMEOUT_S)
        except KafkaException as error:
            recorder.complete(Kind.FAIL, FetchOffsets(group, final=True), str(error))
        else:
            offset = found.offset if found.offset >= 0 else NO_OFFSET
            if found.error is not None:
                offset = UNSTABLE
            recorder.complete(Kind.OK, FetchOffsets(group, True, ((source, offset),)))
        consumer.close()

    # -- processes -------------------------------------------------------------------------------------------

    def _create_topics(self) -> None:
        settings = self.settings
        topics = [NewTopic(settings.topic, settings.partitions), NewTopic(settings.source.topic, 1)]
        admin = AdminClient(settings.client())
        for future in admin.create_topics(topics).values():
            try:
                future.result(CALL_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _wait_for_first_transactions(self) -> None:
        """Wait until every writer has ended a transaction, so that faults hit working writers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        busy: set[str] = set()
        while len(busy) < len(self._ids):
            if time.monotonic() > deadline:
                idle = ", ".join(sorted(set(self._ids) - busy))
                raise WorkloadFailed(
                    f"{idle} completed no transaction at {self.settings.bootstrap} within "
                    f"{START_TIMEOUT_S:g} s: see {self._output}"
                )
            time.sleep(0.1)
            ended = (event.process for event in load(self.settings.history) if isinstance(event.call, End))
            busy = {process.rpartition(".")[0] for process in ended}

    def _kill(self) -> None:
        for process in self._processes():
            process.kill()
            process.wait()

    def _processes(self) -> list[subprocess.Popen[bytes]]:
        return [each for instances in self._writers.values() for each in instances] + self._readers

    def _start_writer(self, transactional_id: str) -> None:
        name = f"{transactional_id}.{next(self._instances)}"
        self._writers[transactional_id].append(self._start("writer", transactional_id, name))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as log:
            command = [sys.executable, "-m", f"{_PACKAGE}.{module}", self.settings.to_argument(), *arguments]
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
