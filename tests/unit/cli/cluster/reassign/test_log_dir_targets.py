"""Plans with log directories, in a cluster of two brokers with two directories each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ruslo.cli.cluster.reassign.log_dir_targets import (
    check_directories,
    current_directories,
    start_moves,
    unfinished_moves,
)
from ruslo.cli.cluster.reassign.plan import propose
from ruslo.cli.cluster.reassign.plan_file import Plan
from ruslo.cli.cluster.reassign.progress import MoveState, wait_until_done
from ruslo.cli.terminal.progress import Progress
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Resource
from ruslo.client.admin.configs import Operation as ConfigOperation
from ruslo.client.admin.topics import NewTopic
from ruslo.client.views.replica_placement import ImpossiblePlacement
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from tests.support.brokers.live_cluster import LiveCluster
from tests.support.brokers.live_node import until

ROLES = {1: "broker,controller", 2: "broker"}
MOVED, GROWN = TopicPartition("t", 0), TopicPartition("t", 1)


@asynccontextmanager
async def two_brokers(tmp_path: Path) -> AsyncIterator[tuple[LiveCluster, Admin]]:
    cluster = LiveCluster(tmp_path, list(ROLES.values()))
    for node_id, roles in ROLES.items():
        directories = ",".join(str(tmp_path / f"{node_id}{name}") for name in "ab")
        cluster.prepare(node_id, roles, first=node_id == 1, properties={"log.dirs": directories})
    await cluster.start()
    try:
        async with Admin(cluster.nodes[1].bootstrap) as admin:
            (created,) = (
                await admin.topics.create([NewTopic("t", assignments={0: [1], 1: [1], 2: [1]})])
            ).values()
            assert not isinstance(created, KafkaError), created
            yield cluster, admin
    finally:
        await cluster.stop(2, 1)


async def test_replicas_of_several_brokers_get_their_directories(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (_, admin):
        one, two = str(tmp_path / "1b"), str(tmp_path / "2b")
        plan = Plan({MOVED: (2,), GROWN: (1, 2)}, {1: {GROWN: one}, 2: {MOVED: two, GROWN: two}})
        await check_directories(admin, plan.log_dirs)
        assert await current_directories(admin, {2: plan.log_dirs[2]}) == {2: {}}
        assert (await unfinished_moves(admin, plan.log_dirs))[MOVED] == {2: False}
        assert set((await admin.reassignments.alter(plan.replicas)).values()) == {None}
        assert await start_moves(admin, plan.log_dirs) == {}
        statuses = await wait_until_done(admin, plan, Progress())
        assert [(each.state, each.log_dirs_pending) for each in statuses] == [(MoveState.DONE, ())] * 2
        assert await current_directories(admin, plan.log_dirs) == plan.log_dirs
        assert await unfinished_moves(admin, plan.log_dirs) == {}


async def test_a_plan_avoids_brokers_with_cordoned_directories(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, admin):
        drained = await propose(admin, [1], [], None, [])
        assert set(drained.plan.values()) == {(2,)}
        await admin.configs.alter(
            Resource.broker(2), {"cordoned.log.dirs": Change(ConfigOperation.SET, str(tmp_path / "2b"))}
        )
        assert (await propose(admin, [1], [], None, [])).plan == drained.plan, "one directory is free"
        await admin.configs.alter(Resource.broker(2), {"cordoned.log.dirs": Change(ConfigOperation.SET, "*")})
        await until(lambda: all(each.cordoned for each in cluster.nodes[2].logs.directories))
        with pytest.raises(ImpossiblePlacement, match="needs 1 replica"):
            await propose(admin, [1], [], None, [])
        assert (await propose(admin, [], [2], None, [])).plan == drained.plan, "the user names it"


async def test_directories_are_checked_before_anything_moves(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, admin):
        with pytest.raises(KafkaError, match="Broker 2 has no log directory /data") as raised:
            await check_directories(admin, {2: {MOVED: "/data"}})
        assert raised.value.code is ErrorCode.LOG_DIR_NOT_FOUND
        cluster.nodes[2].logs.cordon([str(tmp_path / "2b")])
        unknown = TopicPartition("unknown", 0)
        failed = await start_moves(admin, {2: {unknown: str(tmp_path / "2b")}})
        assert failed[unknown].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the directory is cordoned"
