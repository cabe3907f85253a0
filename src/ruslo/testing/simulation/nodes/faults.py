"""Faults of processes, hosts, disks and connections, one at a time, chosen at random.

Most are covered by the guarantees of a cluster. The others, above all a power failure of all nodes, void the
guarantees in the invariants first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from random import Random

from ruslo.broker.quorum.raft import RaftDriver
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.testing.simulation.nodes.cluster import SimCluster, replica_of
from ruslo.testing.simulation.nodes.damage import damage_replica, has_replica
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.nodes.invariants import METADATA, NodeInvariants
from ruslo.testing.simulation.nodes.network import NetworkFaults
from ruslo.testing.simulation.nodes.operator_actions import OPERATIONS, UNCLEAN_OPERATIONS, Operator

CONSEQUENCE_TIMEOUT_MS = 1_000
"""How long a planned fault waits for its consequences."""
STOP_MS = 5_000

ACTIONS: Mapping[str, int] = {
    "kill": 3,
    "kill_leader": 2,
    "kill_all": 1,
    "lose_power": 2,
    "damage": 2,
    "restart": 3,
    "stop": 1,
    "pause": 2,
    "isolate": 2,
    "block_one_way": 2,
    "heal": 3,
    "slow_line": 2,
    "bad_network": 1,
    "slow_disk": 1,
    "lose_power_before_isr_expansion": 1,
    "kill_controller_before_commit": 1,
    "kill_during_compaction": 1,
    **OPERATIONS,
}
DISASTERS: Mapping[str, int] = {**ACTIONS, **UNCLEAN_OPERATIONS, "power_failure": 2, "lose_voter_power": 2}
"""Faults that void the guarantees for records, but not those for the metadata and for recovery."""
DISASTER_FRACTION = 0.1


class NodeFaults:
    def __init__(
        self,
        cluster: SimCluster,
        invariants: NodeInvariants,
        random: Random,
        weights: Mapping[str, int],
        operator: Operator,
        note: Callable[[str], None],
    ) -> None:
        """``weights``: faults and operator requests by name, with their weights."""
        self._cluster = cluster
        self._clock = cluster.clock
        self._invariants = invariants
        self._random = random
        self._operator = operator
        self._note = note
        self._actions: list[Callable[[], None]] = [
            getattr(operator, name, None) or getattr(self, f"_{name}")
            for name, weight in weights.items()
            for _ in range(weight)
        ]

    def inject(self) -> None:
        """Inject one of the faults."""
        self._random.choice(self._actions)()

    def _some_host(self, *, up: bool = True) -> SimHost | None:
        hosts = [host for host in self._cluster.hosts.values() if host.is_up is up]
        return self._random.choice(hosts) if hosts else None

    def _may_lose_data(self) -> bool:
        """Every other host has all acknowledged records, and none is about to be distrusted."""
        return self._cluster.is_healthy() and not self._operator.unregistering

    def _kill(self) -> None:
        host = self._some_host()
        if host is not None and self._cluster.may_be_distrusted(host):
            self._note(f"kill -9 of node {host.id}")
            host.kill()
            self._start_later(host)

    def _kill_leader(self) -> None:
        tp = self._random.choice((*self._cluster.partitions, METADATA))
        host = self._controller() if tp == METADATA else self._cluster.leader(tp)
        if host is not None and self._cluster.may_be_distrusted(host):
            self._note(f"kill -9 of node {host.id}, which leads {tp}")
            host.kill()
            self._start_later(host)

    def _kill_all(self) -> None:
        if all(self._cluster.may_be_distrusted(host) for host in self._cluster.hosts.values()):
            self._note("kill -9 of all nodes")
            for host in self._cluster.hosts.values():
                host.kill()
                self._start_later(host)

    def _lose_power(self) -> None:
        """A host may lose acknowledged records only if the others have them."""
        host = self._some_host()
        if host is None or not (host.data_lost or self._may_lose_data()):
            return
        self._note(f"node {host.id} loses power")
        host.lose_power()
        self._start_later(host)

    def _damage(self) -> None:
        """Kill or stop one node, or kill all, and remove files of one before it restarts.

        The other nodes have everything that is acknowledged.
        """
        if not self._may_lose_data():
            return
        hosts = list(self._cluster.hosts.values())
        damaged = self._random.choice(hosts)
        ended = self._random.choice((hosts, [damaged], []))
        if ended:
            self._note(f"kill -9 of nodes {[host.id for host in ended]}")
            for host in ended:
                host.kill()
        else:
            self._note(f"node {damaged.id} is stopped")
            damaged.stop()
            if not self._cluster.run_until(lambda: not damaged.is_up, STOP_MS):
                return
        held = [tp for tp in self._cluster.partitions if has_replica(damaged.disk, tp)]
        for tp in self._random.sample(held, min(len(held), self._random.randint(1, 3))):
            self._note(f"on node {damaged.id}: {damage_replica(damaged.disk, tp, self._random)}")
        damaged.data_lost = damaged.page_cache_lost = True
        for host in ended:
            self._start_later(host)

    def _power_failure(self) -> None:
        """All hosts lose power at once: only synced data is guaranteed."""
        self._note("all nodes lose power")
        self._invariants.void_guarantees()
        for host in self._cluster.hosts.values():
            host.lose_power()
            self._start_later(host)

    def _lose_voter_power(self) -> None:
        """A voter loses power right after its vote, and votes again because the winner is isolated."""
        leader = self._controller()
        if leader is None or not all(host.is_up for host in self._cluster.hosts.values()):
            return
        self._note(f"kill -9 of node {leader.id}, the controller, and power failures of the next voters")
        self._invariants.void_guarantees()
        leader.kill()
        others = [host for host in self._cluster.hosts.values() if host is not leader]
        before = {host.id: _vote(host) for host in others}
        for _ in range(300):
            self._clock.run_for(1)
            for voter in others:
                voted = _vote(voter)
                if voted != before[voter.id] and voted is not None and voted[1] not in (voter.id, -1):
                    self._note(
                        f"node {voter.id} voted for {voted[1]} and loses power, {voted[1]} is isolated"
                    )
                    voter.lose_power()
                    self._cluster.network.isolate(self._cluster.hosts[voted[1]].address)
                    voter.start()
                    leader.start()
                    self._clock.run_for(CONSEQUENCE_TIMEOUT_MS)
                    return

    def _kill_controller_before_commit(self) -> None:
        """The controller dies when followers have its record, but before it knows that.

        The next controller must commit the record only together with one of its own epoch.
        """
        leader = self._controller()
        if leader is None or leader.process is None or not self._cluster.may_be_distrusted(leader):
            return
        raft = leader.node.raft if leader.node is not None else None
        assert raft is not None
        committed = raft.high_watermark
        leader.process.call_soon(_write_record, raft)
        for _ in range(20):
            self._clock.run_for(1)
            if raft.high_watermark > committed:
                return
            if any(
                _end_of_metadata(host) > committed
                for host in self._cluster.hosts.values()
                if host is not leader
            ):
                self._note(f"kill -9 of node {leader.id}, whose last record is replicated but not committed")
                leader.kill()
                self._start_later(leader)
                return

    def _kill_during_compaction(self) -> None:
        """A node dies during a compaction, after some segments were swapped in but before it is recorded."""
        for _ in range(CONSEQUENCE_TIMEOUT_MS // 2):
            self._clock.run_for(1)
            for host in self._cluster.hosts.values():
                tp = _partition_being_swapped(host)
                if tp is not None and self._cluster.may_be_distrusted(host) and self._random.random() < 0.5:
                    self._note(f"kill -9 of node {host.id}, which is compacting {tp}")
                    host.kill()
                    self._start_later(host)
                    return

    def _lose_power_before_isr_expansion(self) -> None:
        """A replica that is about to join the ISR loses power while the controller decides."""
        if not self._may_lose_data():
            return
        controller = self._controller()
        tp = self._random.choice(self._cluster.partitions)
        leader = self._cluster.leader(tp)
        if controller is None or leader is None or controller is leader:
            return
        joins = next(
            (
                host
                for host in self._cluster.hosts.values()
                if host not in (controller, leader) and host.node is not None and replica_of(host.node, tp)
            ),
            None,
        )
        if joins is None:
            return
        self._note(f"node {joins.id} joins the ISR of {tp} late")
        joins.kill()
        self._clock.run_for(100)
        joins.start()
        slow_lines, line = self._cluster.network.slow_lines, (leader.address, controller.address)
        for _ in range(CONSEQUENCE_TIMEOUT_MS):
            self._clock.run_for(1)
            node = leader.node
            if node is None or not leader.ready:
                return
            if line not in slow_lines and node.metadata.eligible_epoch(joins.id) == _epoch_of(joins):
                slow_lines[line] = CONSEQUENCE_TIMEOUT_MS
            replica = replica_of(node, tp)
            led = replica.leader if replica is not None else None
            pending = led.replication.isr.pending if led is not None and led.replication is not None else None
            if pending is not None and any(member.broker_id == joins.id for member in pending.members):
                self._note(f"node {joins.id} loses power and is isolated from node {leader.id}")
                joins.lose_power()
                self._cluster.network.block(leader.address, joins.address)
                joins.start()
                self._clock.run_for(CONSEQUENCE_TIMEOUT_MS)
                return

    def _controller(self) -> SimHost | None:
        for host in self._cluster.hosts.values():
            if host.node is not None and host.ready and host.node.raft.leader_id == host.id:
                return host
        return None

    def _start_later(self, host: SimHost) -> None:
        delay_ms = self._random.choice((20, 100, 400, 1_200))
        self._clock.call_later(delay_ms, lambda: self._start(host))

    def _start(self, host: SimHost) -> None:
        if not host.is_up:
            self._note(f"node {host.id} starts")
            host.start()

    def _restart(self) -> None:
        host = self._some_host(up=False)
        if host is not None:
            self._start(host)

    def _stop(self) -> None:
        host = self._some_host()
        if host is not None and host.ready:
            self._note(f"node {host.id} is stopped")
            host.stop()

    def _pause(self) -> None:
        host = self._some_host()
        if host is not None:
            duration_ms = self._random.choice((100, 700, 2_000))
            self._note(f"node {host.id} is paused for {duration_ms} ms")
            host.pause()
            self._clock.call_later(duration_ms, host.resume)

    def _isolate(self) -> None:
        host = self._random.choice(list(self._cluster.hosts.values()))
        self._note(f"node {host.id} is isolated")
        self._cluster.network.isolate(host.address)

    def _block_one_way(self) -> None:
        source, target = self._random.sample(list(self._cluster.hosts.values()), 2)
        self._note(f"no packets from node {source.id} to node {target.id}")
        self._cluster.network.block(source.address, target.address)

    def _heal(self) -> None:
        self._note("the network is healed")
        self._cluster.network.faults = NetworkFaults()
        self._cluster.network.heal()

    def _slow_line(self) -> None:
        source, target = self._random.sample(list(self._cluster.hosts.values()), 2)
        delay_ms = self._random.choice((50, 300, 900))
        self._note(f"packets from node {source.id} to node {target.id} take {delay_ms} ms more")
        self._cluster.network.slow_lines[source.address, target.address] = delay_ms

    def _bad_network(self) -> None:
        self._note("the network is bad")
        self._cluster.network.faults = NetworkFaults(slow=0.05, slow_ms=900, reset=0.01)

    def _slow_disk(self) -> None:
        host = self._random.choice(list(self._cluster.hosts.values()))
        host.slow_disk_ms = self._random.choice((0, 30, 400))
        self._note(f"the disk of node {host.id} takes {host.slow_disk_ms} ms")


def _write_record(raft: RaftDriver) -> None:
    with contextlib.suppress(KafkaError):
        raft.append(raft.epoch, [(NoOpRecord(), 0)])


def _end_of_metadata(host: SimHost) -> int:
    return host.node.raft.end_offset if host.node is not None and host.ready else 0


def _partition_being_swapped(host: SimHost) -> TopicPartition | None:
    """A partition whose compacted segments are being swapped in."""
    if host.node is None or not host.ready:
        return None
    return next((log.partition for log in host.node.logs.logs.values() if log.swap is not None), None)


def _epoch_of(host: SimHost) -> int:
    """The broker epoch of the running process."""
    broker = host.node._broker if host.node is not None else None
    return -1 if broker is None else broker.lifecycle.epoch


def _vote(host: SimHost) -> tuple[int, int] | None:
    """The epoch and vote of the node."""
    raft = getattr(host.node, "raft", None)
    machine = raft._machine if raft is not None else None
    return None if machine is None else (machine.quorum.epoch, machine.quorum.voted_id)
