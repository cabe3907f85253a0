"""All leaders that this broker follows, each with a fetcher of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ruslo.broker.partitions.fetcher import Address, FetcherSettings, ReplicaFetcher
from ruslo.broker.partitions.partition import Partition
from ruslo.machines.replica.fetch_plan import Place

NO_LEADER = -1


class ReplicaFetchers:
    def __init__(self, address: Callable[[int], Address | None], settings: FetcherSettings) -> None:
        """``address``: where a broker is reached by other brokers, None while it is not registered."""
        self._address = address
        self._settings = settings
        self._by_leader: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[Place, int] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, partition: Partition) -> None:
        """From its present leader, or from nobody while it has none."""
        place = (partition.topic_id, partition.index)
        leader_id = partition.leader_id
        if self._leader_of.get(place, NO_LEADER) != leader_id:
            self.leave(place)
        if leader_id != NO_LEADER:
            fetcher = self._by_leader.get(leader_id)
            if fetcher is None:
                fetcher = self._by_leader[leader_id] = ReplicaFetcher(
                    leader_id, self._address, self._settings
                )
            self._leader_of[place] = leader_id
            fetcher.follow(partition)

    def leave(self, place: Place) -> None:
        """It is led here now, or not replicated here any more."""
        leader_id = self._leader_of.pop(place, None)
        if leader_id is None:
            return
        fetcher = self._by_leader[leader_id]
        fetcher.leave(place)
        if not len(fetcher):
            del self._by_leader[leader_id]
            ending = asyncio.get_running_loop().create_task(fetcher.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def throttle_changed(self, partition: Partition) -> None:
        """Its topic's settings or the broker's changed, and with them perhaps its replication throttle."""
        place = (partition.topic_id, partition.index)
        leader_id = self._leader_of.get(place)
        if leader_id is not None:
            self._by_leader[leader_id].throttle_changed(place)

    def lost_leaders(self) -> frozenset[int]:
        """Leaders whose processes have ended, as far as their connections tell."""
        return frozenset(each.leader_id for each in self._by_leader.values() if each.leader_is_lost())

    async def stop(self) -> None:
        fetchers, self._by_leader = self._by_leader, {}
        self._leader_of.clear()
        for fetcher in fetchers.values():
            await fetcher.stop()
        await asyncio.gather(*self._ending)
