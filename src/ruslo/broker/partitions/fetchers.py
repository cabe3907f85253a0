"""The replica fetchers of this broker: one for each leader that it follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.broker.partitions.fetcher import FetcherSettings, ReplicaFetcher
from ruslo.broker.partitions.leader_connection import Address
from ruslo.broker.partitions.partition import NO_LEADER, Partition
from ruslo.machines.replica.fetch_session_handler import TopicIdPartition


@dataclass(slots=True, eq=False)
class ReplicaFetchers:
    _address: Callable[[int], Address | None]
    """A broker's address for other brokers; None while it is not registered."""
    _settings: FetcherSettings
    _by_leader: dict[int, ReplicaFetcher] = field(default_factory=dict)
    _leader_of: dict[TopicIdPartition, int] = field(default_factory=dict)
    _stopping: set[asyncio.Task[None]] = field(default_factory=set)

    def follow(self, partition: Partition) -> None:
        """Fetch the partition from its present leader; stop fetching while it has none."""
        tp = (partition.topic_id, partition.index)
        leader_id = partition.leader_id
        if self._leader_of.get(tp, NO_LEADER) != leader_id:
            self.unfollow(tp)
        if leader_id != NO_LEADER:
            fetcher = self._by_leader.get(leader_id)
            if fetcher is None:
                fetcher = self._by_leader[leader_id] = ReplicaFetcher(
                    leader_id, self._address, self._settings
                )
            self._leader_of[tp] = leader_id
            fetcher.follow(partition)

    def unfollow(self, tp: TopicIdPartition) -> None:
        """This broker leads the partition now, or no longer has a replica of it."""
        leader_id = self._leader_of.pop(tp, None)
        if leader_id is None:
            return
        fetcher = self._by_leader[leader_id]
        fetcher.unfollow(tp)
        if not len(fetcher):
            del self._by_leader[leader_id]
            stopping = asyncio.get_running_loop().create_task(fetcher.stop())
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    def throttle_changed(self, partition: Partition) -> None:
        """Settings of the topic or the broker changed, possibly the replication throttle."""
        tp = (partition.topic_id, partition.index)
        leader_id = self._leader_of.get(tp)
        if leader_id is not None:
            self._by_leader[leader_id].throttle_changed(tp)

    def lost_leaders(self) -> frozenset[int]:
        """Leaders whose processes have ended, judged by their connections."""
        return frozenset(
            each.leader_id for each in self._by_leader.values() if each.connection.leader_is_lost()
        )

    async def stop(self) -> None:
        fetchers, self._by_leader = self._by_leader, {}
        self._leader_of.clear()
        for fetcher in fetchers.values():
            await fetcher.stop()
        await asyncio.gather(*self._stopping)
