"""Nodes that form a cluster: responses are the same whichever node leads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.model.topics import METADATA_TOPIC
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse
from ruslo.protocol.messages.vote_request import PartitionData, TopicData, VoteRequest
from ruslo.protocol.messages.vote_response import VoteResponse
from tests.support.brokers.live_cluster import LiveCluster, live_cluster
from tests.support.brokers.live_node import live_node, until
from tests.support.clients.raw_client import connected

COMBINED = ("broker,controller",) * 3


async def create(cluster: LiveCluster, node_id: int, name: str) -> None:
    async with Admin(cluster.nodes[node_id].bootstrap) as admin:
        created = (await admin.topics.create([NewTopic(name, 3, 1)]))[name]
        assert not isinstance(created, KafkaError), created


async def test_any_broker_serves_a_change_and_has_applied_it_when_it_responds(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, COMBINED) as cluster:
        for node_id, node in cluster.nodes.items():
            await create(cluster, node_id, f"t{node_id}")
            assert f"t{node_id}" in node.metadata.image.topics.by_name
        leaders = {
            partition.leader
            for node in cluster.nodes.values()
            for _, _, partition in node.metadata.image.topics.partitions()
        }
        assert leaders == {1, 2, 3}


async def test_next_controller_continues(tmp_path: Path) -> None:
    roles = ("controller", "controller", "controller", "broker")
    async with live_cluster(tmp_path, roles, dynamic=True) as cluster:
        await until(lambda: cluster.leader_id > 0)
        first = cluster.leader_id
        await create(cluster, 4, "before")
        await cluster.stop(first)
        await create(cluster, 4, "after")
        assert cluster.leader_id not in (-1, first)
        await cluster.start(first)
        again = cluster.nodes[first].metadata.image.topics
        await until(lambda: {"before", "after"} <= set(again.by_name))
        # A broker keeps its registration when it sends heartbeats to a new controller.
        assert cluster.nodes[4].broker.lifecycle.is_fenced is False


async def test_late_node_starts_with_the_leaders_snapshot(tmp_path: Path) -> None:
    small = {
        "metadata.log.max.record.bytes.between.snapshots": "200",
        "metadata.max.retention.bytes": "1",
        "controller.quorum.fetch.snapshot.max.bytes": "300",
    }
    async with live_cluster(tmp_path, ("broker,controller",), dynamic=True, properties=small) as cluster:
        leader = cluster.nodes[1]
        for number in range(6):
            await create(cluster, 1, f"t{number}")
        await until(lambda: leader.raft.start_offset > 0)
        cluster.prepare(2, "controller")
        await cluster.start(2)
        late = cluster.nodes[2]
        await until(lambda: len(late.metadata.image.topics.by_name) == 6)
        assert late.raft.start_offset > 0
        files = list((tmp_path / "2" / "__cluster_metadata-0").iterdir())
        snapshots = [path for path in files if path.suffix == ".checkpoint"]
        assert snapshots
        assert all(path.stat().st_mode & 0o777 == 0o400 for path in snapshots)
        assert not [path for path in files if path.suffix == ".part"]
        await create(cluster, 1, "more")
        await until(lambda: "more" in late.metadata.image.topics.by_name)


async def test_voters_change_through_any_broker(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, ("broker,controller",), dynamic=True) as cluster:
        cluster.prepare(2, "broker,controller")
        await cluster.start(2)
        joining = cluster.nodes[2]
        directory_id = joining.logs.directories[0].directory_id
        at = joining.config.controller_listeners[0]
        add = AddRaftVoterRequest(
            cluster_id=cluster.cluster_id,
            timeout_ms=5_000,
            voter_id=2,
            voter_directory_id=directory_id,
            listeners=[Listener(name="CONTROLLER", host=at.host, port=at.port)],
        )
        async with connected(joining.bootstrap) as client:
            added = await client.call(add, AddRaftVoterResponse)
            assert added.error_code == 0, added.error_message
            again = await client.call(add, AddRaftVoterResponse)
            assert again.error_code == ErrorCode.DUPLICATE_VOTER
        assert cluster.nodes[1].raft.voters.ids == (1, 2)
        await create(cluster, 2, "both")

        # The leader itself is removed, and the other voter takes over.
        leader_directory = cluster.nodes[1].logs.directories[0].directory_id
        remove = RemoveRaftVoterRequest(
            cluster_id=cluster.cluster_id, voter_id=1, voter_directory_id=leader_directory
        )
        async with connected(joining.bootstrap) as client:
            removed = await client.call(remove, RemoveRaftVoterResponse)
            assert removed.error_code == 0, removed.error_message
        await until(lambda: cluster.leader_id == 2)
        await create(cluster, 1, "passed-on")


async def test_static_voters_are_moved_into_the_log(tmp_path: Path) -> None:
    quick = {"controller.quorum.fetch.timeout.ms": "500"}
    roles = ("broker,controller", "controller")
    async with live_cluster(tmp_path, roles, properties=quick) as cluster:
        upgrade = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
        )
        async with connected(cluster.nodes[1].bootstrap) as client:
            # Every voter reports its directory id to the leader one fetch timeout after the election.
            while (await client.call(upgrade, UpdateFeaturesResponse)).error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await until(lambda: all(node.raft.kraft_version == 1 for node in cluster.nodes.values()))
        voters = cluster.nodes[2].raft.voters
        for node_id, node in cluster.nodes.items():
            assert voters.find(node_id, node.logs.directories[0].directory_id) is not None
        await create(cluster, 1, "later")


async def test_invalid_request_does_not_move_the_voters(tmp_path: Path) -> None:
    """The move is permanent, so it must not happen when the response says that no feature changed."""
    async with live_cluster(tmp_path, ("broker,controller",)) as cluster:
        raft = cluster.nodes[1].raft
        kraft = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
        beyond = FeatureUpdateKey(feature="kraft.version", max_version_level=5)
        unknown = FeatureUpdateKey(feature="moon.phase", max_version_level=1)
        downwards = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=2)
        async with connected(cluster.nodes[1].bootstrap) as client:
            for updates in ([beyond], [kraft, unknown], [downwards], [kraft, kraft]):
                rejected = await client.call(
                    UpdateFeaturesRequest(feature_updates=updates), UpdateFeaturesResponse
                )
                assert rejected.error_code, updates
                assert raft.kraft_version == 0, updates
            trial = UpdateFeaturesRequest(feature_updates=[kraft], validate_only=True)
            assert (await client.call(trial, UpdateFeaturesResponse)).error_code == 0
            assert raft.kraft_version == 0
            change = UpdateFeaturesRequest(feature_updates=[kraft])
            assert (await client.call(change, UpdateFeaturesResponse)).error_code == 0
            assert raft.kraft_version == 1


async def test_broker_without_a_controller_gets_producer_ids(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, ("controller", "broker", "broker")) as cluster:
        ids = set()
        init = InitProducerIdRequest(transactional_id=None)
        for node_id in (2, 3):
            async with connected(cluster.nodes[node_id].bootstrap) as client:
                response = await client.call(init, InitProducerIdResponse)
                assert response.error_code == 0
                ids.add(response.producer_id)
        assert len(ids) == 2


@pytest.mark.parametrize("wrong", ["cluster", "voter", "epoch"])
async def test_invalid_votes_are_rejected(tmp_path: Path, wrong: str) -> None:
    async with live_cluster(tmp_path, ("controller",)) as cluster:
        node = cluster.nodes[1]
        vote = VoteRequest(
            cluster_id="another" if wrong == "cluster" else cluster.cluster_id,
            voter_id=7 if wrong == "voter" else 1,
            topics=[
                TopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[
                        PartitionData(
                            replica_id=2,
                            replica_epoch=0 if wrong == "epoch" else 9,
                            last_offset=100,
                            last_offset_epoch=9,
                        )
                    ],
                )
            ],
        )
        at = node.config.controller_listeners[0]
        async with connected(f"{at.host}:{at.port}") as client:
            response = await client.call(vote, VoteResponse)
        if wrong == "cluster":
            assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
            return
        (partition,) = response.topics[0].partitions
        assert not partition.vote_granted
        expected = {"voter": ErrorCode.INVALID_VOTER_KEY, "epoch": ErrorCode.FENCED_LEADER_EPOCH}[wrong]
        assert partition.error_code == expected
        assert (partition.leader_id, partition.leader_epoch) == (1, node.raft.epoch)
        assert [(each.node_id, each.port) for each in response.node_endpoints] == [(1, at.port)]


async def test_fetch_without_a_leader_gets_the_new_leader(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, ("controller",) * 2) as cluster:
        await until(lambda: cluster.leader_id > 0)
        follower = cluster.nodes[3 - cluster.leader_id]
        leader = cluster.nodes[cluster.leader_id]
        at = follower.config.controller_listeners[0]
        request = FetchRequest(
            cluster_id=cluster.cluster_id,
            replica_state=ReplicaState(replica_id=9),
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[FetchPartition(current_leader_epoch=leader.raft.epoch)],
                )
                for topic_id in (METADATA_TOPIC_ID, bytes(range(16)))
            ],
        )
        heartbeat = BrokerHeartbeatRequest(broker_id=5, broker_epoch=1)
        async with connected(f"{at.host}:{at.port}") as client:
            response = await client.call(request, FetchResponse)
            rejected = await client.call(heartbeat, BrokerHeartbeatResponse)
        log, other = (topic.partitions[0] for topic in response.responses)
        assert log.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert log.current_leader.leader_id == cluster.leader_id
        assert response.node_endpoints[0].port == leader.config.controller_listeners[0].port
        assert other.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert rejected.error_code == ErrorCode.NOT_CONTROLLER


async def create_replicated(cluster: LiveCluster, name: str, *replicas: int) -> None:
    """Create topic t with one partition, led by the first of its replicas."""
    async with Admin(cluster.nodes[replicas[0]].bootstrap) as admin:
        created = (await admin.topics.create([NewTopic(name, assignments={0: list(replicas)})]))[name]
        assert not isinstance(created, KafkaError), created


async def test_broker_hands_over_leaderships_before_it_closes_its_connections(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, COMBINED) as cluster:
        await create_replicated(cluster, "t", 1, 2, 3)
        topics = cluster.nodes[2].metadata.image.topics
        await until(lambda: "t" in topics.by_name)
        async with connected(cluster.nodes[1].bootstrap) as client:
            stop = asyncio.create_task(cluster.stop(1))
            assert await client.reader.read() == b""
            assert topics.by_name["t"].partitions[0].leader == 2
            await stop


async def test_followers_do_not_name_a_leader_that_closed_its_connections(tmp_path: Path) -> None:
    async with live_cluster(tmp_path, COMBINED) as cluster:
        await create_replicated(cluster, "t", 1, 2, 3)
        follower = cluster.nodes[2].broker.topic_responses
        assert follower.lost_leaders() == set()
        await cluster.nodes[1]._broker_server.close()
        # The controller still receives its heartbeats, so no other broker takes over.
        await until(lambda: follower.lost_leaders() == {1})
        assert cluster.nodes[2].metadata.image.topics.by_name["t"].partitions[0].leader == 1


@pytest.mark.parametrize("hands_over", [True, False])
async def test_controlled_shutdown_can_be_disabled(tmp_path: Path, hands_over: bool) -> None:
    properties = {"controlled.shutdown.enable": str(hands_over).lower()}
    async with live_node(tmp_path, properties) as node:
        metadata = node.node.metadata
    assert metadata.image.cluster.brokers[1].fenced is hands_over
