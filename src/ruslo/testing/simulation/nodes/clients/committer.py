"""Commits offsets of groups without members and verifies that they are kept."""

from __future__ import annotations

from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.clients.writers import committed_offset
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.txns.process import History

MAX_PAUSE_MS = 600


class Committer(SimClient):
    """Each commit uses its own group: a late request may revert an offset, in Kafka too, but not one that is
    written once."""

    def __init__(self, name: str, cluster: SimCluster, history: History, tp: TopicPartition) -> None:
        super().__init__(name, cluster, history)
        self._tp = tp
        self._last = 0
        self.acked: list[int] = []
        self.problems: list[str] = []

    async def run(self) -> None:
        async with self.connect() as cluster:
            while not self.stopping:
                await self.pause(MAX_PAUSE_MS)
                try:
                    if self.acked and self.random.random() < 0.3:
                        await self._verify(cluster, self.random.choice(self.acked))
                    else:
                        await self._commit(cluster)
                except KafkaError:
                    continue
        async with self.connect(with_long_timeout=True) as cluster:
            for number in self.acked:
                await self._verify(cluster, number)

    async def _commit(self, cluster: Cluster) -> None:
        self._last = number = self._last + 1
        offsets = GroupOffsets(cluster, Coordinators(cluster))
        outcome = await offsets.alter(f"{self.name}-{number}", {self._tp: number})
        if outcome[self._tp] is None:
            self.acked.append(number)

    async def _verify(self, cluster: Cluster, number: int) -> None:
        found = await committed_offset(cluster, f"{self.name}-{number}", self._tp)
        if found != number:
            self.problems.append(f"offset {number} was committed for {self.name}-{number}, {found} is there")
