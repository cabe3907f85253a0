"""Commits offsets of groups without members, and looks whether they are still there."""

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

PAUSE_MS = 600


class Committer(SimClient):
    """Each commit is for a group of its own: a request that comes late may take an offset back, in Kafka too,
    but not one that is written once."""

    def __init__(self, name: str, cluster: SimCluster, history: History, place: TopicPartition) -> None:
        super().__init__(name, cluster, history)
        self._place = place
        self._last = 0
        self.acked: list[int] = []
        self.problems: list[str] = []

    async def run(self) -> None:
        async with self.connect() as cluster:
            while not self.stopping:
                await self.pause(PAUSE_MS)
                try:
                    if self.acked and self.random.random() < 0.3:
                        await self._look(cluster, self.random.choice(self.acked))
                    else:
                        await self._commit(cluster)
                except KafkaError:
                    continue
        async with self.connect(patient=True) as cluster:
            for number in self.acked:
                await self._look(cluster, number)

    async def _commit(self, cluster: Cluster) -> None:
        self._last = number = self._last + 1
        offsets = GroupOffsets(cluster, Coordinators(cluster))
        outcome = await offsets.alter(f"{self.name}-{number}", {self._place: number})
        if outcome[self._place] is None:
            self.acked.append(number)

    async def _look(self, cluster: Cluster, number: int) -> None:
        found = await committed_offset(cluster, f"{self.name}-{number}", self._place)
        if found != number:
            self.problems.append(f"offset {number} was committed for {self.name}-{number}, {found} is there")
