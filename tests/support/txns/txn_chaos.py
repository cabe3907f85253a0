"""Transactions with late, duplicate and reordered requests, crashing brokers and clients, and zombies.

- With an even seed all clients use version 2, and every request may arrive late or twice, markers included.
- With an odd seed clients of both versions share transactional ids, over strict connections (``Connection``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories import Isolation, Verdict, check
from ruslo.testing.simulation import LineFaults, SimClock
from ruslo.testing.simulation.connection import NetworkFaults
from ruslo.testing.simulation.txns.cluster import OFFSETS, STATE, ClusterFaults, SimTxnCluster
from ruslo.testing.simulation.txns.offsets import group_of
from ruslo.testing.simulation.txns.process import History
from ruslo.testing.simulation.txns.producer import SimProducer
from ruslo.testing.simulation.txns.reader import SimAuditor, SimReader
from ruslo.testing.simulation.txns.versions import V1, V2

PARTITIONS = [TopicPartition("list", index) for index in range(2)]
IDS = ("t", "u", "v", "w")
CHAOS_MS = 8_000
TIMEOUT_MS = 5_000
LATE_MARKER_MS = 60
RECOVERY_MS = 12_000
"""Long enough for late requests to arrive and open transactions to time out."""


class TxnChaos:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = SimClock(seed)
        self.random = self.clock.random
        self.mixed = seed % 2 == 1
        self.faults = ClusterFaults(
            clients=NetworkFaults(LineFaults(lost=0.01, slow=0.03, slow_ms=3_500), copied=0.08),
            batches=NetworkFaults(LineFaults(lost=0.01, slow=0.15, slow_ms=3_000), copied=0.08),
            verifications=NetworkFaults(LineFaults(lost=0.01, slow=0.05, slow_ms=2_000), copied=0.05),
            markers=NetworkFaults(LineFaults(lost=0.01, slow=0.25, slow_ms=1_400), copied=0.08),
        )
        self.cluster = SimTxnCluster(self.clock, PARTITIONS, strict_brokers=self.mixed, faults=self.faults)
        self.history = History()
        self.stopping = False
        self.producers: list[SimProducer] = []
        self._names = count(1)

    def run(self) -> Verdict:
        for isolation in Isolation:
            for number in range(2):
                name = f"{isolation}-{number}"
                SimReader(name, self.cluster, self.history, isolation, is_stopping=lambda: self.stopping)
        for transactional_id in IDS:
            self._start(transactional_id)
        self._repeat(150, self._replace_producers)
        self._repeat(4_000, self._crash_a_node)
        self._repeat(100, self._move_a_coordinator)
        self._repeat(4_000, self._move_a_partition)
        self.cluster.run_for(CHAOS_MS)
        self.stopping = True
        self.faults.stop()
        self.cluster.run_for(RECOVERY_MS)
        auditor = SimAuditor(self.cluster, self.history, map(group_of, IDS))
        self.cluster.run_for(3_000)
        assert auditor.done, "the auditor did not finish: a partition does not respond or has no end"
        return check(self.history.events)

    def check(self) -> None:
        verdict = self.run()
        if not verdict.valid or verdict.unproven:
            error = AssertionError(str(verdict))
            error.add_note(f"replay: RUSLO_CHAOS_SEEDS={self.seed}-{self.seed}")
            raise error

    # -- faults ----------------------------------------------------------------------------------------------

    def _repeat(self, mean_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self.stopping:
                action()
                self._repeat(mean_ms, action)

        self.clock.call_later(self.random.randint(mean_ms // 2, mean_ms * 3 // 2), act)

    def _start(self, transactional_id: str) -> None:
        version = self.random.choice((V1, V1, V2)) if self.mixed else V2
        self.producers.append(
            SimProducer(
                f"{transactional_id}{next(self._names)}",
                transactional_id,
                self.cluster,
                self.history,
                version,
                timeout_ms=TIMEOUT_MS,
                is_stopping=lambda: self.stopping,
            )
        )

    def _replace_producers(self) -> None:
        self.producers = [producer for producer in self.producers if producer.alive]
        for transactional_id in IDS:
            alive = [each for each in self.producers if each.transactional_id == transactional_id]
            chance = self.random.random()
            if not alive:
                if chance < 0.5:
                    self._start(transactional_id)
            elif chance < 0.01:
                alive[-1].kill()
            elif chance < 0.025:
                # A zombie: it resumes after another producer has fenced it.
                alive[-1].pause(self.random.randint(500, 7_000))
                self._start(transactional_id)

    def _crash_a_node(self) -> None:
        self.cluster.crash(self.random.choice(list(self.cluster.nodes)), self.random.randint(50, 1_500))

    def _move_a_coordinator(self) -> None:
        """Move a coordinator, more likely while it waits for responses to its markers."""
        waits = self.cluster.markers_under_way_ms() > LATE_MARKER_MS
        if self.random.random() < (0.3 if waits else 0.03):
            self.cluster.move(STATE)
        elif self.random.random() < 0.03:
            self.cluster.move(OFFSETS)

    def _move_a_partition(self) -> None:
        self.cluster.move(self.random.choice(PARTITIONS))
