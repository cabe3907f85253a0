"""Whole clusters under all kinds of faults, determined by a seed.

``NodesChaos.boot()`` starts a cluster without faults. ``run(seed)`` then starts clients and injects faults,
once. It raises ``InvariantBrokenError`` with the name of the invariant and the trace of the run, or returns
when the cluster has recovered and everything acknowledged has been read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from hashlib import blake2b
from random import Random

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from ruslo.testing.histories import Isolation, check
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.clients.group_member import GroupMember
from ruslo.testing.simulation.nodes.clients.pipeliner import Pipeliner
from ruslo.testing.simulation.nodes.clients.readers import Auditor, Reader
from ruslo.testing.simulation.nodes.clients.writers import (
    Committer,
    IdempotentWriter,
    Ledger,
    TransactionalWriter,
    group_of,
)
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.nodes.committed_log import LAST_OF_KEY_KEPT, Retention
from ruslo.testing.simulation.nodes.faults import ACTIONS, DISASTER_FRACTION, DISASTERS, NodeFaults
from ruslo.testing.simulation.nodes.invariants import (
    ACKED_KEPT,
    LOG_START_INCREASES,
    NO_UNHANDLED_ERRORS,
    NodeInvariants,
)
from ruslo.testing.simulation.nodes.keyed_records import KeyedRecords
from ruslo.testing.simulation.nodes.network import NetworkFaults
from ruslo.testing.simulation.nodes.operator_actions import Operator
from ruslo.testing.simulation.nodes.process_loop import ProcessLoop
from ruslo.testing.simulation.raft.invariants import PROGRESS, InvariantBrokenError
from ruslo.testing.simulation.txns.process import History

PLAIN = [TopicPartition("plain", 0)]
LISTS = [TopicPartition("list", 0), TopicPartition("list", 1)]
KEYED = TopicPartition("keyed", 0)
INTERNAL = [TopicPartition(GROUP_OFFSETS_TOPIC, 0), TopicPartition(TRANSACTION_STATE_TOPIC, 0)]
IDS = ("t", "u")
FAULTS_MS = (500, 900, 1_600)
"""The duration of faults: one of these."""
RECOVERY_TIMEOUT_MS = 30_000
AUDIT_TIMEOUT_MS = 30_000

RETENTION_BYTES = 900
TOPICS = (
    NewTopic("plain", len(PLAIN), 3, {"segment.ms": "120", "retention.bytes": str(RETENTION_BYTES)}),
    NewTopic("list", len(LISTS), 3, {"segment.ms": "200"}),
    # Compaction merges as much as the index of a segment holds: small indexes keep several segments.
    NewTopic("keyed", 1, 3, {"segment.ms": "80", "cleanup.policy": "compact", "segment.index.bytes": "36"}),
)
"""Segments are rolled by time, because a topic cannot configure such small ones."""

TRACE_LINES = 200


class NodesChaos:
    def __init__(
        self,
        *,
        actions: Mapping[str, int] | None = None,
        on_note: Callable[[str], None] = lambda line: None,
    ) -> None:
        """``actions``: the faults by name and their weights; without it the seed chooses. ``on_note`` gets
        every line of the trace."""
        self.clock = SimClock(0)
        self.invariants = NodeInvariants()
        self.history = History()
        self.ledger = Ledger()
        self._on_note = on_note
        self._trace: list[str] = []
        self._weights = actions

    # -- a run -----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        self._seed(0)
        self.cluster = SimCluster(self.clock, on_step=self.invariants.check)
        self.invariants.hosts = self.cluster.hosts
        self.invariants.offsets = {tp: {} for tp in PLAIN}
        for tp in (KEYED, *INTERNAL):
            self.invariants.committed_log(tp).keyed = KeyedRecords()
        for tp in PLAIN:
            self.invariants.committed_log(tp).retention = Retention(bytes=RETENTION_BYTES)
        self.cluster.partitions = [*PLAIN, *LISTS, KEYED, *INTERNAL]
        self.cluster.start()
        self._prepare()

    def run(self, seed: int) -> None:
        self._seed(seed)
        try:
            self._run()
        except InvariantBrokenError as error:
            error.add_note(self.trace())
            raise

    def _seed(self, seed: int) -> None:
        """All randomness from now on depends on the seed: that of the cluster, and that of client retries."""
        self.clock.random.seed(seed)
        random.seed(seed)

    def trace(self) -> str:
        return "\n".join(self._trace[-TRACE_LINES:])

    def note(self, what: str) -> None:
        line = f"{self.clock.monotonic_ms():>8} {what}"
        self._trace.append(line)
        self._on_note(line)

    def current_process(self) -> str:
        """The host of the running process."""
        try:
            running: object = asyncio.get_running_loop()
        except RuntimeError:
            return "a thread"
        assert isinstance(running, ProcessLoop)
        return running.host

    def fingerprint(self) -> int:
        """A hash of all responses to clients and of the ends of all logs."""
        digest = blake2b(repr(self.history.events).encode(), digest_size=8)
        digest.update(repr(self.ledger.acked).encode())
        for tp, log in sorted(self.invariants.committed.items()):
            digest.update(repr((tp, log.batches)).encode())
        digest.update(str(self.clock.monotonic_ms()).encode())
        return int.from_bytes(digest.digest(), "big")

    def _prepare(self) -> None:
        """Create topics, and everything that is created on first use."""
        done: list[bool] = []

        async def prepare() -> None:
            async with Admin(self.cluster.bootstrap) as admin:
                await admin.topics.create(TOPICS)
            done.append(True)

        self.cluster.spawn("admin", prepare)
        warm_up = [*self._clients("warm-"), Auditor(self.cluster, self.history, [], [], PLAIN[0], [])]
        for client in warm_up:
            client.start()
        self.cluster.run_until(lambda: bool(done), RECOVERY_TIMEOUT_MS)
        self._require(bool(done), "topics are created")
        self.clock.run_for(1_000)
        self._finish(warm_up)

    def _clients(self, prefix: str) -> list[SimClient]:
        cluster, history = self.cluster, self.history
        return [
            IdempotentWriter(f"{prefix}p1", cluster, history, self.ledger, [*PLAIN, KEYED]),
            IdempotentWriter(f"{prefix}p2", cluster, history, self.ledger, [*PLAIN, KEYED]),
            *(
                TransactionalWriter(f"{prefix}{each}", each, cluster, history, LISTS, PLAIN[0], KEYED)
                for each in IDS
            ),
            *(Reader(f"{prefix}{each}", cluster, history, each, LISTS) for each in Isolation),
            Committer(f"{prefix}c", cluster, history, PLAIN[0]),
            Pipeliner(f"{prefix}l", cluster, history, [*PLAIN, *LISTS]),
            *(
                GroupMember(f"{prefix}m{number}", cluster, history, "members", ["plain", "list", "keyed"])
                for number in range(2)
            ),
        ]

    def _run(self) -> None:
        random = Random(self.clock.random.getrandbits(64))
        weights = self._weights or (DISASTERS if random.random() < DISASTER_FRACTION else ACTIONS)
        operator = self.operator = Operator(self.cluster, self.invariants, random, PLAIN[0], self.note)
        faults = NodeFaults(self.cluster, self.invariants, random, weights, operator, self.note)
        for host in self.cluster.hosts.values():
            if random.random() < 0.5:
                host.local_clock.change(
                    rate=random.uniform(0.93, 1.07), ahead_ms=random.randint(-5_000, 5_000)
                )
        # The set of clients varies: the same load would always find the same problems.
        clients = [client for client in self._clients("") if random.random() < 0.6]
        for client in clients:
            client.start()
        end_ms = self.clock.monotonic_ms() + random.choice(FAULTS_MS)
        while self.clock.monotonic_ms() < end_ms:
            self.clock.run_for(random.choice((20, 60, 150, 300, 450)))
            faults.inject()
        self._end_faults()
        if self._is_void():
            self.operator.abort_hanging_transactions()
        self._finish(clients)
        if not self._is_void():
            self._audit(clients)

    # -- the end ---------------------------------------------------------------------------------------------

    def _end_faults(self) -> None:
        """End all faults: the cluster must recover by itself."""
        self.note("all faults end")
        network = self.cluster.network
        network.faults = NetworkFaults()
        network.heal()
        for host in self.cluster.hosts.values():
            host.slow_disk_ms = 0
            host.resume()
            host.start()
        self._require(
            self.cluster.run_until(self._is_restored, RECOVERY_TIMEOUT_MS),
            f"all replicas are assigned and in sync within {RECOVERY_TIMEOUT_MS} ms: {self._state()}",
        )

    def _is_restored(self) -> bool:
        """Operator requests have completed or timed out, and the cluster is healthy."""
        return self.operator.done and self.cluster.is_healthy()

    def _finish(self, clients: list[SimClient]) -> None:
        for client in clients:
            client.stopping = True
        self.cluster.run_until(lambda: all(client.done for client in clients), AUDIT_TIMEOUT_MS)
        for client in clients:
            assert client.process is not None
            for error in client.process.unhandled():
                raise InvariantBrokenError(NO_UNHANDLED_ERRORS, f"{client.name}: {error!r}") from error
            self._require(client.done, f"{client.name} ends")

    def _audit(self, clients: list[SimClient]) -> None:
        self._require(
            self.cluster.run_until(self._is_quiescent, RECOVERY_TIMEOUT_MS),
            f"every open transaction is aborted: {self._state()}",
        )
        groups = [group_of(each) for each in IDS]
        auditor = Auditor(self.cluster, self.history, LISTS, groups, PLAIN[0], [*PLAIN, KEYED])
        auditor.start()
        self._finish([auditor])
        verdict = check(self.history.events)
        if not verdict.valid or verdict.unproven:
            name = verdict.findings[0].anomaly if verdict.findings else PROGRESS
            raise InvariantBrokenError(name, str(verdict))
        self._check_ledger(auditor)
        self._check_keyed(auditor)
        self._check_log_start(auditor)
        for error in self.operator.unhandled():
            raise InvariantBrokenError(NO_UNHANDLED_ERRORS, f"an operator: {error!r}") from error
        for host in self.cluster.hosts.values():
            for error in host.process.unhandled() if host.process is not None else ():
                raise InvariantBrokenError(NO_UNHANDLED_ERRORS, f"node {host.id}: {error!r}") from error
        for client in clients:
            if client.problems:
                raise InvariantBrokenError(client.invariant, "; ".join(client.problems))

    def _check_ledger(self, auditor: Auditor) -> None:
        """Every acknowledged record is read, once and in order."""
        for tp in PLAIN:
            found, start = auditor.found[tp], auditor.starts[tp]
            offsets = self.invariants.offsets[tp]
            missing = [
                each
                for each in self.ledger.acked[tp]
                if each not in set(found) and not offsets.get(each, start) < start
            ]
            if missing:
                raise InvariantBrokenError(ACKED_KEPT, f"acked and not in {tp}: {missing}")
            last: dict[str, int] = {}
            for element in found:
                writer, _, number = element.rpartition(".")
                if int(number) <= last.get(writer, -1):
                    raise InvariantBrokenError("no duplicate, no reorder", f"{element} in {tp}: {found}")
                last[writer] = int(number)

    def _check_keyed(self, auditor: Auditor) -> None:
        """A full read finds the last record of every key."""
        keyed = self.invariants.committed_log(KEYED).keyed
        assert keyed is not None
        found = set(auditor.found[KEYED])
        lost = [value for value in keyed.last_values if value is None or value.decode() not in found]
        if lost:
            raise InvariantBrokenError(LAST_OF_KEY_KEPT, f"missing in {KEYED}: {lost}")

    def _check_log_start(self, auditor: Auditor) -> None:
        """Records that a DeleteRecords response reported as deleted cannot be read."""
        start, operator = auditor.starts[PLAIN[0]], self.operator
        # A killed replica may forget its log start: it writes the leader's log start only periodically.
        leader = self.cluster.leader(PLAIN[0])
        assert leader is not None, "the cluster is healthy"
        current = [each for each in operator.deletions if each.incarnations[leader.id] == leader.incarnations]
        kept = max((each.low_watermark for each in current), default=0)
        if start < kept:
            raise InvariantBrokenError(
                LOG_START_INCREASES, f"{PLAIN[0]} starts at {start}, but everything before {kept} was deleted"
            )

    def _is_quiescent(self) -> bool:
        """No transaction is open, and all replicas are caught up and know it."""
        return self.cluster.is_healthy() and all(
            partition.log.last_stable_offset == partition.log.high_watermark == partition.log.end_offset
            for host in self.cluster.hosts.values()
            if host.node is not None
            for partition in host.node.broker.partitions
        )

    def _state(self) -> str:
        lines = []
        for host in self.cluster.hosts.values():
            node = host.node
            lines.append(f"node {host.id}: ready={host.ready} ends={host.ends[-1:]}")
            if node is not None and host.ready:
                lines.append(
                    f"  raft {node.raft.leader_id}/{node.raft.epoch} hw {node.raft.high_watermark} "
                    f"end {node.raft.end_offset}"
                )
                for partition in node.broker.partitions:
                    lines.append(
                        f"  {partition.topic}-{partition.index} leader {partition.leader_id}/"
                        f"{partition.leader_epoch} end {partition.log.end_offset} "
                        f"hw {partition.log.high_watermark} isr {partition.isr}"
                    )
        return "\n".join(lines)

    def _is_void(self) -> bool:
        return any(log.is_void for log in self.invariants.committed.values())

    def _require(self, true: bool, what: str) -> None:
        if not true:
            raise InvariantBrokenError(PROGRESS, what)
