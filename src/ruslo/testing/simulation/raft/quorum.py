"""A whole quorum on virtual time: nodes, the network between them, and the invariants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import ReplicaKey
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.states import State
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.raft.invariants import PROGRESS, InvariantBrokenError, RaftInvariants
from ruslo.testing.simulation.raft.log import SimSnapshot
from ruslo.testing.simulation.raft.network import SimNetwork
from ruslo.testing.simulation.raft.node import SimRaftNode

BOOTSTRAP_ID = -2
PROGRESS_MS = 30_000


def directory_of(node_id: int, disk: int = 0) -> bytes:
    """The directory id of the node's n-th disk."""
    return bytes([0] * 14 + [disk + 1, node_id])


class SimQuorum:
    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 0,
        dynamic: bool = False,
        settings: RaftSettings | None = None,
        skewed_clocks: bool = False,
    ) -> None:
        """``dynamic``: the voters are in the log (kraft.version 1)."""
        self.clock = SimClock(seed)
        self.network = SimNetwork(self.clock)
        self.invariants = RaftInvariants()
        self.snapshots: dict[SnapshotId, SimSnapshot] = {}
        self.sync_votes = True
        self.settings = settings or RaftSettings()
        self.dynamic = dynamic
        self.skewed_clocks = skewed_clocks
        self.nodes: dict[int, SimRaftNode] = {}
        self._incarnations: dict[int, int] = {}
        self._next_value = 0
        first = [ReplicaKey(node_id, directory_of(node_id)) for node_id in range(1, voters + 1)]
        self._first_voters = VoterSet(
            tuple(
                Voter(key.node_id, key.directory_id if dynamic else bytes(16), (_endpoint(key.node_id),))
                for key in first
            )
        )
        self.bootstrap: Mapping[int, Endpoint] = {BOOTSTRAP_ID: _endpoint(1)}
        for key in first:
            self.add_node(key, may_vote=True, first_voter=True)
        for node_id in range(voters + 1, voters + observers + 1):
            self.add_node(ReplicaKey(node_id, directory_of(node_id)), may_vote=False)

    # -- the nodes -------------------------------------------------------------------------------------------

    def add_node(self, key: ReplicaKey, *, may_vote: bool, first_voter: bool = False) -> SimRaftNode:
        """A node that is not a first voter starts as an observer."""
        auto_join = self.settings.auto_join and may_vote
        rate = self.clock.random.uniform(0.93, 1.07) if self.skewed_clocks else 1.0
        node = SimRaftNode(
            self,
            key,
            static_voters=None if self.dynamic else self._first_voters,
            settings=replace(self.settings, may_vote=may_vote, auto_join=auto_join),
            clock_rate=rate,
        )
        if self.dynamic and first_voter:
            version = KRaftVersionRecord(version=0, kraft_version=1)
            node.log.snapshot = SimSnapshot(SnapshotId(0, 0), (version, self._first_voters.to_record()))
        self.nodes[key.node_id] = node
        return node

    def node_at(self, node_id: int) -> SimRaftNode:
        """The node with this id, or behind the bootstrap address."""
        return self.nodes[1 if node_id == BOOTSTRAP_ID else node_id]

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def kill(self, node_id: int, *, noticed: bool = True) -> None:
        """``noticed``: only the process died, so its peers' connections break."""
        node = self.nodes[node_id]
        if not node.is_up:
            return
        node.kill()
        self._incarnations[node_id] = self._incarnations.get(node_id, 0) + 1
        for other in self.nodes.values():
            if noticed and other.is_up and (node_id, other.node_id) not in self.network.blocked:
                delay_ms = self.clock.random.randint(1, 5)
                self.clock.call_later(delay_ms, partial(self._notice_death, other, node_id))

    def _notice_death(self, observer: SimRaftNode, dead_id: int) -> None:
        """Report the death of the process, unless it is up again by the time of the probe."""
        if observer.is_up and not self.nodes[dead_id].is_up:
            observer.peer_gone(dead_id)

    def restart(self, node_id: int) -> None:
        if not self.nodes[node_id].is_up:
            self.nodes[node_id].start()

    @property
    def leader(self) -> SimRaftNode | None:
        """The leader of the latest epoch."""
        leading = [
            node
            for node in self.nodes.values()
            if node.machine is not None and node.machine.state is State.LEADER
        ]
        return max(leading, key=lambda node: node.machine.epoch if node.machine else -1, default=None)

    def append(self, node: SimRaftNode) -> bool:
        self._next_value += 1
        return node.append(self._next_value)

    # -- invariants ------------------------------------------------------------------------------------------

    def stepped(self, node: SimRaftNode) -> None:
        self.invariants.check(node, self._incarnations.get(node.node_id, 0))

    def require_progress(self) -> None:
        """With all nodes up and the network healed, a leader commits and all nodes follow."""
        self.network.heal()
        for node_id in self.nodes:
            self.restart(node_id)
        deadline_ms = self.clock.monotonic_ms() + PROGRESS_MS
        target: int | None = None
        while self.clock.monotonic_ms() < deadline_ms:
            self.clock.run_for(50)
            leader = self.leader
            if target is None:
                if leader is not None and self.append(leader):
                    target = leader.log.end_offset
                continue
            if all(_has(node, target) for node in self.nodes.values()):
                return
            if leader is None or leader.log.end_offset < target:
                target = None
        states = {
            node.node_id: (node.machine.state.value, node.machine.epoch, node.machine.high_watermark)
            for node in self.nodes.values()
            if node.machine is not None
        }
        raise InvariantBrokenError(PROGRESS, f"after {PROGRESS_MS} ms without faults: {states}")

    def trace(self) -> str:
        """The last events, for a failed seed."""
        events = [(at_ms, node.node_id, event) for node in self.nodes.values() for at_ms, event in node.trace]
        events.sort(key=lambda each: each[0])
        return "\n".join(f"{at_ms:>8} node {node_id}: {event}" for at_ms, node_id, event in events)


def _endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", f"node-{node_id}", 9093)


def _has(node: SimRaftNode, offset: int) -> bool:
    machine = node.machine
    return machine is not None and machine.high_watermark >= offset and machine.leader_id != NO_NODE
