"""Requests of operators during faults: reassignments, elections, deletions, voter changes.

Each request is a process with the real admin client, which sends it once and ends. The cluster may reject it
or be too busy to respond; but what it acknowledged must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.admin.leader_elections import ElectionType
from ruslo.client.settings.bootstrap_servers import Address
from ruslo.client.views.hanging_transactions import HangingTransaction, find_hanging_transactions
from ruslo.client.views.txn_abort_plan import AbortRefused, plan_marker
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import ChannelSettings
from ruslo.testing.simulation.nodes.clients.client import API_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from ruslo.testing.simulation.nodes.cluster import CONTROLLER_LISTENER, CONTROLLER_PORT, SimCluster
from ruslo.testing.simulation.nodes.committed_log import Retention
from ruslo.testing.simulation.nodes.invariants import NodeInvariants
from ruslo.testing.simulation.nodes.process_loop import ProcessLoop

OPERATIONS: Mapping[str, int] = {
    "reassign": 4,
    "cancel_reassignment": 2,
    "elect_preferred": 2,
    "delete_records": 2,
    "shorten_retention": 1,
    "remove_voter": 1,
    "add_voter": 1,
    "unregister": 1,
}
UNCLEAN_OPERATIONS: Mapping[str, int] = {**OPERATIONS, "elect_unclean_leaders": 3}
"""Requests that may void the guarantees for records."""
MIN_REPLICAS = 2
"""As many as ``min.insync.replicas``."""
MIN_VOTERS = 2
HANGING_SEARCHES = 4
HANGING_SEARCH_INTERVAL_S = 2.0


class Deletion(NamedTuple):
    """A response to DeleteRecords."""

    low_watermark: int
    incarnations: Mapping[int, int]
    """The incarnation of each node when the request was sent."""


@dataclass(eq=False)
class Operator:
    """``deletable``: the partition whose records may be deleted."""

    _cluster: SimCluster
    _invariants: NodeInvariants
    _random: Random
    _deletable: TopicPartition
    _note: Callable[[str], None]

    def __post_init__(self) -> None:
        self._processes: list[ProcessLoop] = []
        self._open = 0
        self.unregistering = 0
        """Requests to unregister a broker that have no response yet."""
        self.deletions: list[Deletion] = []

    @property
    def done(self) -> bool:
        return self._open == 0

    def unhandled(self) -> list[BaseException]:
        return [error for process in self._processes for error in process.unhandled()]

    # -- replicas --------------------------------------------------------------------------------------------

    def reassign(self) -> None:
        """Expand, shrink, move or reorder replicas, also during another reassignment."""
        tp = self._random.choice(self._cluster.partitions)
        nodes = list(self._cluster.hosts)
        target = self._random.sample(nodes, self._random.randint(MIN_REPLICAS, len(nodes)))
        self._submit(f"reassign {tp} to {target}", lambda admin: admin.reassignments.alter({tp: target}))

    def cancel_reassignment(self) -> None:
        moving = [tp for tp in self._cluster.partitions if _is_reassigning(self._invariants.known(tp))]
        if not moving:
            return
        tp = self._random.choice(moving)
        self._submit(f"cancel the reassignment of {tp}", lambda admin: admin.reassignments.alter({tp: None}))

    def elect_preferred(self) -> None:
        self._submit(
            "elect preferred leaders",
            lambda admin: admin.leader_elections.elect(ElectionType.PREFERRED),
        )

    def elect_unclean_leaders(self) -> None:
        self._invariants.void_guarantees()
        self._submit(
            "elect unclean leaders",
            lambda admin: admin.leader_elections.elect(ElectionType.UNCLEAN),
        )

    # -- records ---------------------------------------------------------------------------------------------

    def delete_records(self) -> None:
        tp = self._deletable
        end = self._invariants.committed_log(tp).end
        before = self._random.randint(end // 2, end)
        retention = self._retention()
        retention.requested_offset = max(retention.requested_offset, before)

        async def send(admin: Admin) -> None:
            incarnations = {host.id: host.incarnations for host in self._cluster.hosts.values()}
            response = await admin.topics.delete_records({tp: before})
            self.deletions.append(Deletion(response[tp], incarnations))
            self._note(f"records of {tp} before {response[tp]} are deleted")

        self._submit(f"delete records of {tp} before {before}", send)

    def shorten_retention(self) -> None:
        """Older records are deleted."""
        tp = self._deletable
        retention_ms = self._random.choice((300, 2_000))
        retention = self._retention()
        retention.ms = retention_ms if retention.ms < 0 else min(retention.ms, retention_ms)
        change = Change(Operation.SET, str(retention_ms))
        self._submit(
            f"set retention.ms of {tp} to {retention_ms}",
            lambda admin: admin.configs.alter(Resource.topic(tp.topic), {"retention.ms": change}),
        )

    def _retention(self) -> Retention:
        retention = self._invariants.committed_log(self._deletable).retention
        assert retention is not None, "its records may be deleted"
        return retention

    # -- brokers ---------------------------------------------------------------------------------------------

    def unregister(self) -> None:
        """A live broker registers again by itself."""
        broker_id = self._random.choice(list(self._cluster.hosts))
        if not self._cluster.may_be_distrusted(self._cluster.hosts[broker_id]):
            return

        async def send(admin: Admin) -> None:
            self.unregistering += 1
            try:
                await admin.brokers.unregister(broker_id)
            finally:
                self.unregistering -= 1

        self._submit(f"unregister broker {broker_id}", send)

    # -- transactions ----------------------------------------------------------------------------------------

    def abort_hanging_transactions(self) -> None:
        """The state partition may have lost what its coordinator knew of open transactions."""

        async def send(admin: Admin) -> None:
            for _ in range(HANGING_SEARCHES):
                found = await find_hanging_transactions(
                    admin, self._cluster.partitions, written_before_ms=sys.maxsize
                )
                for each in found:
                    self._note(f"abort a hanging transaction: {each}")
                    with contextlib.suppress(AbortRefused):  # it has ended in the meantime
                        await _abort(admin, each)
                await asyncio.sleep(HANGING_SEARCH_INTERVAL_S)

        self._submit("abort hanging transactions", send)

    # -- voters ----------------------------------------------------------------------------------------------

    def remove_voter(self) -> None:
        voters = self._cluster.voter_ids()
        if len(voters) <= MIN_VOTERS:
            return
        host = self._cluster.hosts[self._random.choice(voters)]
        self._submit(
            f"remove voter {host.id}",
            lambda admin: admin.quorum.remove_voter(host.id, host.directory_id),
        )

    def add_voter(self) -> None:
        others = [node_id for node_id in self._cluster.hosts if node_id not in self._cluster.voter_ids()]
        if not others:
            return
        host = self._cluster.hosts[self._random.choice(others)]
        address = Address(host.address, CONTROLLER_PORT)
        self._submit(
            f"add voter {host.id}",
            lambda admin: admin.quorum.add_voter(host.id, host.directory_id, CONTROLLER_LISTENER, address),
        )

    # -- sending ---------------------------------------------------------------------------------------------

    def _submit(self, what: str, send: Callable[[Admin], Awaitable[object]]) -> None:
        self._note(what)
        self._open += 1
        settings = ChannelSettings(
            client_id="operator", connect_timeout_ms=REQUEST_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS
        )

        async def program() -> None:
            try:
                async with Admin(
                    self._cluster.bootstrap, settings=settings, api_timeout_ms=API_TIMEOUT_MS
                ) as admin:
                    await send(admin)
            except KafkaError as error:
                self._note(f"{what}: {error}")
            finally:
                self._open -= 1

        self._processes.append(self._cluster.spawn(f"operator-{len(self._processes)}", program))


async def _abort(admin: Admin, hanging: HangingTransaction) -> None:
    plan = await plan_marker(admin, hanging.open.partition, hanging.open.start_offset, force=False)
    await admin.transactions.write_abort_marker(plan.partition, plan.producer, plan.coordinator_epoch)


def _is_reassigning(partition: PartitionImage | None) -> bool:
    return partition is not None and bool(partition.adding or partition.removing)
