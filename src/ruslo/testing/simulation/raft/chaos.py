"""A quorum under all kinds of faults, determined by a seed.

``RaftChaos(seed).run()`` raises ``InvariantBrokenError`` with the name of the invariant and the last events
of every node, or returns when the quorum has recovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.rpc import AddVoterRequest, RemoveVoterRequest, ReplicaKey
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.voters import Voter
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError
from ruslo.testing.simulation.raft.network import NetworkFaults
from ruslo.testing.simulation.raft.node import SimRaftNode
from ruslo.testing.simulation.raft.quorum import SimQuorum, directory_of

FAULTS_MS = 8_000
ACTIONS: Mapping[str, int] = {
    "append": 4,
    "kill_and_restart": 1,
    "kill_leader": 1,
    "kill_many": 1,
    "kill_after_vote": 1,
    "kill_leaders": 2,
    "isolate": 2,
    "heal": 1,
    "bad_network": 1,
    "slow_disk": 1,
    "snapshot": 1,
    "resign": 1,
}
VOTER_ACTIONS: Mapping[str, int] = {"add_voter": 2, "remove_voter": 1}


class RaftChaos:
    def __init__(
        self,
        seed: int,
        *,
        duration_ms: int = FAULTS_MS,
        voters: int | None = None,
        dynamic: bool | None = None,
        actions: Mapping[str, int] | None = None,
    ) -> None:
        """Parameters that are not given are random. ``actions``: the faults by name and their weights."""
        self.seed = seed
        self.duration_ms = duration_ms
        random = self._random = Random(seed)
        self._dynamic = random.random() < 0.5 if dynamic is None else dynamic
        self.quorum = SimQuorum(
            seed,
            voters=random.choice((1, 2, 3, 3, 3, 4, 5, 5)) if voters is None else voters,
            observers=random.choice((0, 1)),
            dynamic=self._dynamic,
            settings=RaftSettings(auto_join=random.random() < 0.3),
            skewed_clocks=random.random() < 0.5,
        )
        weights = actions or {**ACTIONS, **(VOTER_ACTIONS if self._dynamic else {})}
        self._actions: list[Callable[[], None]] = [
            getattr(self, f"_{name}") for name, weight in weights.items() for _ in range(weight)
        ]

    def run(self) -> None:
        try:
            self._run()
        except InvariantBrokenError as error:
            error.add_note(f"seed {self.seed}; the last events:\n{self.quorum.trace()}")
            raise

    def _run(self) -> None:
        quorum, clock = self.quorum, self.quorum.clock
        quorum.start()
        while clock.monotonic_ms() < self.duration_ms:
            clock.run_for(self._random.choice((1, 5, 20, 100, 400, 1_200)))
            self._random.choice(self._actions)()
        quorum.network.faults = NetworkFaults()
        for node in quorum.nodes.values():
            node.disk.slow = 0.0
        quorum.require_progress()

    # -- faults ----------------------------------------------------------------------------------------------

    def _append(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            for node in self.quorum.nodes.values():
                self.quorum.append(node)

    def _random_node(self) -> SimRaftNode:
        return self._random.choice(list(self.quorum.nodes.values()))

    def _kill_and_restart(self) -> None:
        self._kill(self._random_node())

    def _kill_leader(self) -> None:
        leader = self.quorum.leader
        if leader is not None:
            self._kill(leader)

    def _kill_many(self) -> None:
        if self._random.random() < 0.3:
            for node in self.quorum.nodes.values():
                if self._random.random() < 0.8:
                    self._kill(node)

    def _kill_after_vote(self) -> None:
        """Kill nodes that have just voted, during an election on a slow network: their votes must survive."""
        quorum, random = self.quorum, self._random
        leader = quorum.leader
        if leader is not None:
            self._kill(leader, down_ms=random.choice((20, 60)))
        before, quorum.network.faults = quorum.network.faults, NetworkFaults(slow=0.3, slow_ms=100)
        for _ in range(150):
            quorum.clock.run_for(2)
            for node in quorum.nodes.values():
                voted = node.machine.quorum if node.machine is not None else QuorumState()
                if voted.voted_id not in (NO_NODE, node.node_id) and voted.leader_id == NO_NODE:
                    self._kill(node, down_ms=random.choice((1, 3, 10)))
            if quorum.leader is not None:
                break
        quorum.network.faults = before

    def _kill_leaders(self) -> None:
        """Kill one leader after another, each as soon as a record of it has reached a few nodes."""
        quorum, random = self.quorum, self._random
        for _ in range(random.randint(2, 12)):
            quorum.network.heal()
            for _ in range(100):
                if quorum.leader is not None:
                    break
                quorum.clock.run_for(3)
            leader = quorum.leader
            if leader is not None:
                unreached = [node_id for node_id in quorum.nodes if random.random() < 0.4]
                quorum.network.isolate(leader.node_id, unreached)
                quorum.append(leader)
                quorum.clock.run_for(random.randint(0, 8))
                self._kill(leader, down_ms=random.choice((3, 30, 100)))

    def _kill(self, node: SimRaftNode, down_ms: int | None = None) -> None:
        node_id = node.node_id
        self.quorum.kill(node_id, noticed=self._random.random() < 0.6)
        down_ms = down_ms or self._random.choice((3, 50, 500, 3_000))
        self.quorum.clock.call_later(down_ms, lambda: self.quorum.restart(node_id))

    def _isolate(self) -> None:
        nodes = list(self.quorum.nodes)
        victim = self._random.choice(nodes)
        direction = self._random.randrange(3)
        self.quorum.network.isolate(victim, nodes, inwards=direction != 1, outwards=direction != 2)

    def _heal(self) -> None:
        self.quorum.network.heal()

    def _bad_network(self) -> None:
        faults = self.quorum.network.faults
        faults.lost = self._random.choice((0.0, 0.0, 0.02, 0.2))
        faults.repeated = self._random.choice((0.0, 0.1))
        faults.slow = self._random.choice((0.0, 0.0, 0.05, 0.3))

    def _slow_disk(self) -> None:
        self._random_node().disk.slow = self._random.choice((0.0, 0.3))

    def _snapshot(self) -> None:
        self._random_node().take_snapshot(truncate=self._random.random() < 0.6)

    def _resign(self) -> None:
        leader = self.quorum.leader
        if leader is not None:
            leader.resign()

    def _add_voter(self) -> None:
        leader = self.quorum.leader
        if leader is None or leader.machine is None:
            return
        voters = leader.machine.voters
        joining = [
            node
            for node in self.quorum.nodes.values()
            if node.settings.may_vote and voters.find(*node.key) is None and node.is_up
        ]
        if not joining:
            if len(self.quorum.nodes) < 6:
                new_id = max(self.quorum.nodes) + 1
                key = ReplicaKey(new_id, directory_of(new_id))
                self.quorum.add_node(key, may_vote=True).start()
            return
        node = self._random.choice(joining)
        voter = Voter(*node.key, (node.endpoint,))
        leader.request(AddVoterRequest(voter, timeout_ms=5_000), lambda response: None)

    def _remove_voter(self) -> None:
        leader = self.quorum.leader
        if leader is None or leader.machine is None:
            return
        voter = self._random.choice(leader.machine.voters.voters)
        leader.request(
            RemoveVoterRequest(ReplicaKey(voter.node_id, voter.directory_id)), lambda response: None
        )
