"""The metrics of a node after real requests."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ruslo.broker.metrics.catalog import CATALOG
from ruslo.broker.node.node import Node
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.testing.cluster_layout import format_single_node, single_node_properties
from tests.support.brokers.live_cluster import LiveCluster, live_cluster
from tests.support.brokers.live_node import NOW, batch_of, live_node, until
from tests.support.brokers.metrics import http_request, scrape
from tests.support.clients.raw_client import RawClient, connected

OFFSET_COMMIT_BY_NAME = 9
CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


async def commit(client: RawClient, group: str, topic: str, index: int, offset: int) -> None:
    """Commit an offset once the coordinator is loaded."""
    partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    while True:
        response = await client.call(request, OffsetCommitResponse, OFFSET_COMMIT_BY_NAME)
        if response.topics[0].partitions[0].error_code == 0:
            return
        await asyncio.sleep(0.02)


async def find_coordinator(client: RawClient, group: str) -> int:
    """Return the coordinator once it is available."""
    while True:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        found = (await client.call(request, FindCoordinatorResponse)).coordinators[0]
        if found.error_code == 0:
            return found.node_id
        await asyncio.sleep(0.02)


async def test_traffic_requests_and_logs(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        batches = [batch_of(b"a", b"b"), batch_of(b"c")]
        size = sum(map(len, batches))
        for batch in batches:
            await node.produce(client, batch, acks=-1)
        rejected = await node.produce(client, batch_of(b"x")[:-1] + b"!")
        assert rejected.error_code == ErrorCode.CORRUPT_MESSAGE
        fetched = await node.fetch(client, offset=0)
        assert len(fetched.records or b"") == size
        missed = await node.fetch(client, offset=77)
        assert missed.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        seen = await scrape(node.node)
        traffic = "kafka_server_brokertopicmetrics"
        for labels in ({"topic": "t"}, {}):
            assert seen.value(f"{traffic}_bytesin_total", **labels) == size
            assert seen.value(f"{traffic}_bytesout_total", **labels) == size
            assert seen.value(f"{traffic}_messagesin_total", **labels) == 3
            assert seen.value(f"{traffic}_totalproducerequests_total", **labels) == 3
            assert seen.value(f"{traffic}_failedproducerequests_total", **labels) == 1
            assert seen.value(f"{traffic}_totalfetchrequests_total", **labels) == 2
            assert seen.value(f"{traffic}_failedfetchrequests_total", **labels) == 1
        requests = "kafka_network_requestmetrics"
        assert seen.value(f"{requests}_requests_total", request="Produce") == 3
        assert seen.value(f"{requests}_requests_total", request="Fetch") == 2
        assert seen.value(f"{requests}_requests_total", request="CreateTopics") == 1
        assert seen.value(f"{requests}_errors_total", request="Produce", error="CORRUPT_MESSAGE") == 1
        assert seen.value(f"{requests}_errors_total", request="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
        assert seen.value(f"{requests}_totaltimems_count", request="Produce") == 3
        assert (seen.value(f"{requests}_totaltimems_sum", request="Produce") or 0) > 0
        assert seen.value("kafka_log_log_size", topic="t", partition=0) == size
        assert seen.value("kafka_log_log_logendoffset", topic="t", partition=0) == 3
        assert seen.value("kafka_server_replicamanager_leadercount") == 1
        assert seen.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert seen.value("kafka_controller_kafkacontroller_activebrokercount") == 1
        assert seen.value("kafka_controller_controllerstats_uncleanleaderelections_total") == 0
        assert seen.value(CONNECTIONS, listener="PLAINTEXT") == 1
        await node.delete("t")
        await until(lambda: "t" not in node.node.metrics.traffic.topics)
        after = await scrape(node.node)
        assert after.value(f"{traffic}_bytesin_total", topic="t") is None
        assert after.value(f"{traffic}_bytesin_total") == size


async def test_pending_requests_are_counted_until_their_response(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        async with connected(node.bootstrap) as waiting:
            requested = node.fetch(waiting, offset=0, max_wait_ms=20_000, min_bytes=1)
            fetch = asyncio.create_task(requested)
            servers = node.node._broker_server
            await until(lambda: any(each.pending_responses for each in servers.connections))
            assert (await scrape(node.node)).value("kafka_network_requestchannel_requestqueuesize") == 1
            await node.produce(client, batch_of(b"a"), acks=1)
            await fetch
        seen = await scrape(node.node)
        assert seen.value("kafka_network_requestchannel_requestqueuesize") == 0
        assert seen.value("kafka_network_requestmetrics_requests_total", request="Fetch") == 1


async def test_groups_show_offsets_lag_and_errors(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=2)
        await node.produce(client, batch_of(b"a", b"b", b"c"), index=1)
        await find_coordinator(client, "g")
        await commit(client, "g", "t", 1, 2)
        lost = await client.call(HeartbeatRequest(group_id="g", member_id="unknown"), HeartbeatResponse)
        assert lost.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        seen = await scrape(node.node)
        labels = {"consumergroup": "g", "topic": "t", "partition": 1}
        assert seen.value("kafka_consumergroup_current_offset", **labels) == 2
        assert seen.value("kafka_consumergroup_lag", **labels) == 1
        assert seen.value("kafka_consumergroup_members", consumergroup="g") == 0
        assert seen.value("kafka_coordinator_group_count", protocol="classic", state="Empty") == 1
        errors = "kafka_network_requestmetrics_errors_total"
        assert seen.value(errors, request="Heartbeat", error="UNKNOWN_MEMBER_ID") == 1


async def test_exported_metrics_are_those_of_the_catalogue(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.produce(client, batch_of(b"a"))
        seen = await scrape(node.node)
        # The parser removes the suffix of counters.
        exported = {
            f"{name}_total" if family.type == "counter" else name for name, family in seen.families.items()
        }
        assert exported == {metric.name for metric in CATALOG}
        kinds = {metric.name.removesuffix("_total"): metric for metric in CATALOG}
        for name, family in seen.families.items():
            assert family.type == kinds[name].kind, name
            for sample in family.samples:
                assert set(sample.labels) - {"le"} <= set(kinds[name].labels), sample


async def test_cluster_shows_follower_lag_and_gets_group_lag_from_leaders(tmp_path: Path) -> None:
    properties = ONE_PARTITION | {"ruslo.metrics.listener": "127.0.0.1:0"}
    async with live_cluster(tmp_path, ("broker,controller",) * 3, properties=properties) as cluster:
        await create(cluster, NewTopic("pair", assignments={0: [1, 2]}))
        await create(cluster, NewTopic("far", assignments={0: [3]}))
        one, three = cluster.nodes[1], cluster.nodes[3]
        await until(lambda: 0 in one.broker.partitions.by_name.get("pair", {}))
        await until(lambda: 0 in three.broker.partitions.by_name.get("far", {}))
        three.broker.partitions.by_name["far"][0].append(memoryview(batch_of(b"a", b"b")), NOW)
        async with connected(one.bootstrap) as client:
            coordinator = cluster.nodes[await find_coordinator(client, "g")]
        async with connected(coordinator.bootstrap) as client:
            await commit(client, "g", "far", 0, 1)
        seen = await scrape(coordinator)
        assert seen.value("kafka_consumergroup_lag", consumergroup="g", topic="far", partition=0) == 1
        one.broker.partitions.by_name["pair"][0].append(memoryview(batch_of(b"x")), NOW)
        await until(lambda: cluster.nodes[2].broker.partitions.by_name["pair"][0].log.end_offset == 1)
        controllers = [
            (await scrape(node)).value("kafka_controller_kafkacontroller_activecontrollercount")
            for node in cluster.nodes.values()
        ]
        assert sorted(filter(None, controllers)) == [1]
        follower = await scrape(cluster.nodes[2])
        traffic = "kafka_server_brokertopicmetrics"
        assert (follower.value(f"{traffic}_replicationbytesin_total", topic="pair") or 0) > 60
        assert follower.value("kafka_server_replicafetchermanager_maxlag") == 0
        await until(lambda: one.metrics.traffic.topics["pair"].replication_bytes_out > 60)
        await cluster.stop(2)
        await until(lambda: len(one.broker.partitions.by_name["pair"][0].isr) == 1)
        one.broker.partitions.by_name["pair"][0].append(memoryview(batch_of(b"y", b"z")), NOW)
        leader = await scrape(one)
        assert leader.value("kafka_server_replicamanager_underreplicatedpartitions") == 1
        assert leader.value("kafka_server_replicamanager_atminisrpartitioncount") == 1
        assert leader.value("kafka_server_replicamanager_underminisrpartitioncount") == 0
        assert leader.value("ruslo_follower_lag_records", follower=2) == 2
        await cluster.start(2)
        await until(lambda: len(one.broker.partitions.by_name["pair"][0].isr) == 2)
        leader = await scrape(one)
        assert leader.value("kafka_server_replicamanager_isrexpands_total") == 1
        assert leader.value("kafka_server_replicamanager_underreplicatedpartitions") == 0


async def create(cluster: LiveCluster, topic: NewTopic) -> None:
    async with Admin(cluster.nodes[1].bootstrap) as admin:
        created = (await admin.topics.create([topic]))[topic.name]
        assert not isinstance(created, KafkaError), created


async def test_controller_only_node_has_metrics(tmp_path: Path) -> None:
    properties = {"ruslo.metrics.listener": "127.0.0.1:0"}
    async with live_cluster(tmp_path, ("controller", "broker"), properties=properties) as cluster:
        seen = await scrape(cluster.nodes[1])
        assert seen.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert seen.value("kafka_controller_kafkacontroller_activebrokercount") == 1
        assert (seen.value("kafka_network_requestmetrics_requests_total", request="BrokerHeartbeat") or 0) > 0
        assert seen.value("kafka_server_raft_metrics_current_leader") == 1
        assert seen.value("kafka_server_replicamanager_leadercount") is None
        other = await scrape(cluster.nodes[2])
        assert other.value("kafka_controller_kafkacontroller_activecontrollercount") == 0


async def test_node_is_ready_when_it_serves_and_not_when_it_is_fenced(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(single_node_properties(tmp_path))
    format_single_node(config)
    node = Node(config)
    assert node.health() == (False, "starting")
    await node.start()
    assert node.metrics.address is not None
    assert await http_request(node.metrics.address, "/health/ready") == (200, '{"state": "ready"}\n')
    brokers = node.metadata.image.cluster.brokers
    brokers[1] = brokers[1]._replace(fenced=True)
    assert await http_request(node.metrics.address, "/health/ready") == (503, '{"state": "fenced"}\n')
    assert (await http_request(node.metrics.address, "/health/live"))[0] == 200
    brokers[1] = brokers[1]._replace(fenced=False)
    await node.stop()
    assert node.health() == (False, "stopping")


async def test_address_in_use_prevents_the_start_only_if_it_is_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with live_node(tmp_path / "first") as first:
        occupied = first.node.metrics.address
        assert occupied is not None
        chosen = {"ruslo.metrics.listener": occupied}
        with pytest.raises(ConfigError, match="another process listens there"):
            async with live_node(tmp_path / "second", chosen):
                pass
        async with live_node(tmp_path / "third", {"ruslo.metrics.listener": ""}) as silent:
            assert silent.node.metrics.address is None
        key = "ruslo.metrics.listener"
        properties = single_node_properties(tmp_path / "fourth")
        del properties[key]
        config = BrokerConfig.from_properties(properties)
        config._values[key] = occupied  # The test treats this port as the default.
        format_single_node(config)
        fourth = Node(config)
        with caplog.at_level(logging.WARNING):
            await fourth.start()
        assert "metrics cannot be served" in caplog.text
        assert fourth.metrics.address is None
        await fourth.stop()
