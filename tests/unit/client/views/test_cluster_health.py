"""Healthy and unhealthy clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.views.cluster_health import ClusterHealth, cluster_health
from ruslo.client.views.partition_health import Risk
from ruslo.model.errors import KafkaError
from tests.support.brokers.live_cluster import live_cluster


async def poll_health(admin: Admin, condition: Callable[[ClusterHealth], bool]) -> ClusterHealth:
    """Poll the health until the predicate holds."""
    while True:
        found = await cluster_health(admin)
        if condition(found):
            return found
        await asyncio.sleep(0.05)


async def test_a_cluster_loses_a_broker_and_gets_it_back(tmp_path: Path) -> None:
    async with (
        live_cluster(tmp_path, ("broker,controller",) * 3) as cluster,
        Admin(cluster.nodes[1].bootstrap) as admin,
    ):
        topics = [NewTopic("pair", assignments={0: [1, 2]}), NewTopic("alone", assignments={0: [2]})]
        for created in (await admin.topics.create(topics)).values():
            assert not isinstance(created, KafkaError), created
        await poll_health(admin, lambda found: found.healthy)
        await cluster.stop(2)
        found = await poll_health(admin, lambda found: found.at_risk["at-min-isr"] > 0)
        assert found.problems == ["1 partition offline", "1 partition at-min-isr", "fenced: broker 2"]
        assert found.fenced_brokers == [2]
        only_worst = await cluster_health(admin, Risk.OFFLINE)
        assert only_worst.problems == ["1 partition offline", "fenced: broker 2"]
        await cluster.start(2)
        await poll_health(admin, lambda found: found.healthy)


def test_the_sentence_names_the_problems() -> None:
    unhealthy = ClusterHealth(["no active controller", "2 partitions offline"], None, 3, [], 9, {}, 0)
    assert unhealthy.sentence == "Not healthy: no active controller; 2 partitions offline."
