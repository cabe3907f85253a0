"""What operators ask of a cluster while faults go on: moves of replicas, elections, deletions, other voters.

Each order is a process with the real admin client inside, which asks once and comes to an end, whatever it is
told: a cluster may refuse, and may be too busy to answer. What was answered is another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.admin.leader_elections import ElectionType
from ruslo.client.settings.bootstrap_servers import Address
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import ChannelSettings
from ruslo.testing.simulation.nodes.clients.client import API_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from ruslo.testing.simulation.nodes.cluster import CONTROLLER_LISTENER, CONTROLLER_PORT, SimCluster
from ruslo.testing.simulation.nodes.committed_log import Retention
from ruslo.testing.simulation.nodes.invariants import NodeInvariants
from ruslo.testing.simulation.nodes.process_loop import ProcessLoop

ORDERS: Mapping[str, int] = {
    "reassign": 4,
    "cancel_reassignment": 2,
    "elect_preferred": 2,
    "delete_records": 2,
    "keep_less": 1,
    "remove_voter": 1,
    "add_voter": 1,
    "unregister": 1,
}
DESPERATE_ORDERS: Mapping[str, int] = {**ORDERS, "elect_uncleanly": 3}
"""After which nothing is promised of records."""
FEWEST_REPLICAS = 2
"""As many as ``min.insync.replicas``."""
FEWEST_VOTERS = 2


class Deletion(NamedTuple):
    """An answer to DeleteRecords."""

    low_watermark: int
    lives: Mapping[int, int]
    """By node, which of its lives it was in when it was asked for."""


class Orders:
    def __init__(
        self,
        cluster: SimCluster,
        invariants: NodeInvariants,
        random: Random,
        deletable: TopicPartition,
        tell: Callable[[str], None],
    ) -> None:
        """``deletable``: the partition whose records may be deleted."""
        self._cluster = cluster
        self._invariants = invariants
        self._random = random
        self._deletable = deletable
        self._tell = tell
        self._processes: list[ProcessLoop] = []
        self._open = 0
        self.deletions: list[Deletion] = []

    @property
    def done(self) -> bool:
        return self._open == 0

    def unhandled(self) -> list[BaseException]:
        return [error for process in self._processes for error in process.unhandled()]

    # -- replicas --------------------------------------------------------------------------------------------

    def reassign(self) -> None:
        """Grow, shrink, move, or put in another order; on the way to another target too."""
        place = self._random.choice(self._cluster.places)
        nodes = list(self._cluster.hosts)
        target = self._random.sample(nodes, self._random.randint(FEWEST_REPLICAS, len(nodes)))

        async def ask(admin: Admin) -> None:
            await admin.reassignments.alter({place: target})

        self._order(f"{place} is to move to {target}", ask)

    def cancel_reassignment(self) -> None:
        moving = [place for place in self._cluster.places if _is_moving(self._invariants.known(place))]
        if not moving:
            return
        place = self._random.choice(moving)

        async def ask(admin: Admin) -> None:
            await admin.reassignments.alter({place: None})

        self._order(f"the move of {place} is to be cancelled", ask)

    def elect_preferred(self) -> None:
        async def ask(admin: Admin) -> None:
            await admin.leader_elections.elect(ElectionType.PREFERRED)

        self._order("the first replicas are to lead", ask)

    def elect_uncleanly(self) -> None:
        self._invariants.give_up()

        async def ask(admin: Admin) -> None:
            await admin.leader_elections.elect(ElectionType.UNCLEAN)

        self._order("anybody may lead what nobody leads", ask)

    # -- records ---------------------------------------------------------------------------------------------

    def delete_records(self) -> None:
        place = self._deletable
        end = self._invariants.committed_log(place).end
        before = self._random.randint(end // 2, end)
        retention = self._retention()
        retention.asked_for = max(retention.asked_for, before)

        async def ask(admin: Admin) -> None:
            lives = {host.id: host.lives for host in self._cluster.hosts.values()}
            answer = await admin.topics.delete_records({place: before})
            self.deletions.append(Deletion(answer[place], lives))
            self._tell(f"records of {place} before {answer[place]} are deleted")

        self._order(f"records of {place} before {before} are to be deleted", ask)

    def keep_less(self) -> None:
        """What is older goes."""
        place = self._deletable
        retention_ms = self._random.choice((300, 2_000))
        retention = self._retention()
        retention.ms = retention_ms if retention.ms < 0 else min(retention.ms, retention_ms)
        change = Change(Operation.SET, str(retention_ms))

        async def ask(admin: Admin) -> None:
            await admin.configs.alter(Resource.topic(place.topic), {"retention.ms": change})

        self._order(f"records of {place} are to be kept for {retention_ms} ms", ask)

    def _retention(self) -> Retention:
        retention = self._invariants.committed_log(self._deletable).retention
        assert retention is not None, "records of it may be deleted"
        return retention

    # -- brokers ---------------------------------------------------------------------------------------------

    def unregister(self) -> None:
        """A broker that is alive registers again by itself."""
        broker_id = self._random.choice(list(self._cluster.hosts))

        async def ask(admin: Admin) -> None:
            await admin.brokers.unregister(broker_id)

        self._order(f"broker {broker_id} is to be unregistered", ask)

    # -- voters ----------------------------------------------------------------------------------------------

    def remove_voter(self) -> None:
        voters = self._cluster.voter_ids()
        if len(voters) <= FEWEST_VOTERS:
            return
        host = self._cluster.hosts[self._random.choice(voters)]

        async def ask(admin: Admin) -> None:
            await admin.quorum.remove_voter(host.id, host.directory_id)

        self._order(f"node {host.id} is to vote no more", ask)

    def add_voter(self) -> None:
        others = [node_id for node_id in self._cluster.hosts if node_id not in self._cluster.voter_ids()]
        if not others:
            return
        host = self._cluster.hosts[self._random.choice(others)]
        address = Address(host.address, CONTROLLER_PORT)

        async def ask(admin: Admin) -> None:
            await admin.quorum.add_voter(host.id, host.directory_id, CONTROLLER_LISTENER, address)

        self._order(f"node {host.id} is to vote", ask)

    # -- how -------------------------------------------------------------------------------------------------

    def _order(self, what: str, ask: Callable[[Admin], Coroutine[Any, Any, None]]) -> None:
        self._tell(what)
        self._open += 1
        settings = ChannelSettings(
            client_id="operator", connect_timeout_ms=REQUEST_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS
        )

        async def program() -> None:
            try:
                async with Admin(
                    self._cluster.bootstrap, settings=settings, api_timeout_ms=API_TIMEOUT_MS
                ) as admin:
                    await ask(admin)
            except KafkaError as error:
                self._tell(f"{what}: {error}")
            finally:
                self._open -= 1

        self._processes.append(self._cluster.spawn(f"operator-{len(self._processes)}", program))


def _is_moving(partition: PartitionImage | None) -> bool:
    return partition is not None and bool(partition.adding or partition.removing)
