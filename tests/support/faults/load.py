"""Clients of every kind at once, and a check of their guarantees.

- An idempotent producer writes numbered records.
- One group applies them and then commits to the broker (at least once).
- One group stores its positions with its output (exactly once).
- Transactional producers and consumers record a history (``ruslo.testing.histories``).
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.testing.histories.workload.settings import WorkloadSettings
from ruslo.testing.histories.workload.workload import Workload
from tests.support.clients.steady_producer import IDEMPOTENT, SteadyProducer
from tests.support.clients.workers import Workers
from tests.support.faults.cluster import REPLICATION_FACTOR, FaultCluster
from tests.support.groups.chaos_consumer import ChaosGroup

STEADY, HISTORY = "steady", "list"
PARTITIONS = 6
HISTORY_PARTITIONS = 3
MEMBERS = 2
GROUPS = (("cooperative", "committed"), ("consumer", "stored"))
PROGRESS_TIMEOUT_S = 120.0
RESTART_INTERVAL_S = 0.3
SHORT_TIMEOUTS = {
    **IDEMPOTENT,
    # Clients give up silent hosts sooner than by default, so faults can be short.
    "request.timeout.ms": 3_000,
    "socket.timeout.ms": 4_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "log_level": 0,
}


class FaultLoad:
    def __init__(
        self, cluster: FaultCluster, directory: Path, producer: SteadyProducer, workload: Workload
    ) -> None:
        self._cluster = cluster
        self.producer = producer
        self.workload = workload
        self._writer_supervisor = WriterSupervisor(workload)
        self.groups = [ChaosGroup(*kind, STEADY, directory) for kind in GROUPS]

    @property
    def topics(self) -> list[str]:
        return [STEADY, HISTORY]

    def wait_for_more(self, records: int) -> None:
        """Wait until this many more records are acknowledged, and one in every partition."""
        self.producer.wait_for_every_partition(PROGRESS_TIMEOUT_S)
        self.producer.wait_for_more(records, timeout_s=PROGRESS_TIMEOUT_S + records / 500)

    def stop_restarts(self) -> None:
        """Stop restarting writers."""
        self._writer_supervisor.stop()

    def wait_for_groups(self) -> None:
        """Wait until each group has applied a record."""
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while not all(_applied(group) for group in self.groups):
            assert time.monotonic() < deadline, "a group reads no records"
            time.sleep(0.1)

    def check(self) -> str:
        """Stop all clients and return a summary; raises AssertionError if a guarantee was broken."""
        self.stop_restarts()
        self.producer.stop()
        self.producer.check(self._cluster.bootstrap)
        acked = {partition: len(acks.numbers) for partition, acks in self.producer.acked.items()}
        summary = [f"{self.producer.count()} records acked"]
        summary += [_check_group(group, acked) for group in self.groups]
        verdict = self.workload.audit()
        assert not verdict.findings, str(verdict)
        assert not verdict.unproven, str(verdict)
        assert verdict.transactions["committed"], "no transaction was committed"
        return "; ".join([*summary, str(verdict).splitlines()[0]])


class WriterSupervisor:
    """Replaces transactional writers that have ended, because a fault may fence a producer."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(RESTART_INTERVAL_S):
            self._workload.restart_writers()


def _check_group(group: ChaosGroup, acked: dict[int, int]) -> str:
    """Check that every record was applied, and only once if positions are stored with the output."""
    wanted = {(partition, offset) for partition, count in acked.items() for offset in range(count)}
    deadline = time.monotonic() + PROGRESS_TIMEOUT_S
    while True:
        times = _applied(group)
        if times.keys() >= wanted or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    lost = sorted(wanted - times.keys())
    assert not lost, f"{group.name} did not apply {len(lost)} records: {lost[:5]}"
    assert times.keys() == wanted, f"{group.name} applied records that were never acknowledged"
    duplicates = sum(times.values()) - len(times)
    assert duplicates == 0 or group.positions == "committed", f"{group.name}: {duplicates} duplicates"
    return f"{group.name}: {len(times)} applied, {duplicates} duplicates"


def _applied(group: ChaosGroup) -> Counter[tuple[int, int]]:
    with contextlib.closing(group.open_output()) as output:
        return Counter(output.execute("SELECT partition, offset FROM applied").fetchall())


def _start_member(group: ChaosGroup, bootstrap: str, slot: int) -> subprocess.Popen[bytes]:
    return group.start_member(bootstrap)


@contextlib.contextmanager
def fault_load(cluster: FaultCluster, directory: Path, *, pause_s: float) -> Iterator[FaultLoad]:
    """Yields running clients that have each made progress."""
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(STEADY, PARTITIONS, REPLICATION_FACTOR)
    admin.create_topics([topic], operation_timeout=30)[STEADY].result(30)
    settings = WorkloadSettings(
        bootstrap=bootstrap,
        folder=str(directory / "history"),
        topic=HISTORY,
        partitions=HISTORY_PARTITIONS,
        keys=3,
        transaction_timeout_ms=10_000,
    )
    with contextlib.ExitStack() as undo:
        producer = SteadyProducer(bootstrap, STEADY, PARTITIONS, pause_s=pause_s, settings=SHORT_TIMEOUTS)
        undo.enter_context(producer)
        workload = undo.enter_context(Workload(settings, writers=2))
        load = FaultLoad(cluster, directory, producer, workload)
        undo.callback(load.stop_restarts)
        for group in load.groups:
            group.open_output().close()
            members = Workers(MEMBERS, partial(_start_member, group, bootstrap))
            undo.enter_context(members)
            members.fill_up()
        producer.wait_for_every_partition()
        load.wait_for_groups()
        yield load
