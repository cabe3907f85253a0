"""Sends requests without waiting for the responses, and compares the ends of partitions that they report."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from ruslo.client.admin.offsets import Spec
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import Channel
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.testing.histories import Isolation
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.txns.process import History

ENDS_INCREASE = "a response on a connection never reports an older end than the response before it"
MAX_PAUSE_MS = 200
MAX_WAIT_MS = 400
MAX_PIPELINED = 4
_BY_NAME = 12
"""The last version of Fetch that names topics."""

Ends = dict[Isolation, int]
"""The end offset for each isolation level that a response contains."""


class Pipeliner(SimClient):
    invariant = ENDS_INCREASE

    def __init__(
        self, name: str, cluster: SimCluster, history: History, partitions: list[TopicPartition]
    ) -> None:
        super().__init__(name, cluster, history)
        self._partitions = partitions

    async def run(self) -> None:
        async with self.connect() as cluster:
            seen: defaultdict[tuple[Channel, TopicPartition], Ends] = defaultdict(dict)
            while not self.stopping:
                await self.pause(MAX_PAUSE_MS)
                tp = self.random.choice(self._partitions)
                try:
                    (leader,) = await cluster.leaders([tp])
                    connection = await cluster.connection(leader)
                    if not await self._compare_ends(connection, tp, seen[connection, tp]):
                        await cluster.metadata([tp.topic])
                except KafkaError:
                    continue

    async def _compare_ends(self, connection: Channel, tp: TopicPartition, seen: Ends) -> bool:
        """Whether the broker leads the partition."""
        position = seen.get(Isolation.READ_UNCOMMITTED, 0)
        requests = [
            asyncio.create_task(
                self._fetch(connection, tp, position)
                if self.random.random() < 0.5
                else self._list_end(connection, tp, self.random.choice(list(Isolation)))
            )
            for _ in range(self.random.randint(2, MAX_PIPELINED))
        ]
        leads = True
        for ends in await asyncio.gather(*requests):
            leads &= bool(ends)
            for isolation, end in ends.items():
                if end < seen.get(isolation, 0):
                    self.problems.append(
                        f"{tp} ended at {seen[isolation]} for {isolation}, the next response says {end}"
                    )
                seen[isolation] = end
        return leads

    async def _fetch(self, connection: Channel, tp: TopicPartition, position: int) -> Ends:
        partition = FetchPartition(partition=tp.partition, fetch_offset=position, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=self.random.randint(0, MAX_WAIT_MS),
            min_bytes=1,
            max_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=tp.topic, partitions=[partition])],
        )
        response = await connection.request(request, FetchResponse, max_version=_BY_NAME)
        found = response.responses[0].partitions[0]
        if found.error_code:
            return {}
        return {
            Isolation.READ_UNCOMMITTED: found.high_watermark,
            Isolation.READ_COMMITTED: found.last_stable_offset,
        }

    async def _list_end(self, connection: Channel, tp: TopicPartition, isolation: Isolation) -> Ends:
        partition = ListOffsetsPartition(partition_index=tp.partition, timestamp=Spec.LATEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(isolation is Isolation.READ_COMMITTED),
            topics=[ListOffsetsTopic(name=tp.topic, partitions=[partition])],
        )
        response = await connection.request(request, ListOffsetsResponse)
        found = response.topics[0].partitions[0]
        return {} if found.error_code else {isolation: found.offset}
