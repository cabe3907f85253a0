"""Clients get their subscriptions, and the metrics listener exports what they push (KIP-714)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ruslo.broker.telemetry.client_telemetry import ACCEPTED_COMPRESSION
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ruslo.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from ruslo.protocol.messages.push_telemetry_request import PushTelemetryRequest
from ruslo.protocol.messages.push_telemetry_response import PushTelemetryResponse
from ruslo.records.compression import Codec, compress
from tests.support.brokers.live_node import LiveNode, live_node
from tests.support.brokers.metrics import scrape
from tests.support.clients.raw_client import RawClient, connected
from tests.support.telemetry.otlp import counter, gauge, histogram, metrics_data, point

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MAX_BYTES = 20_000
Subscriptions = GetTelemetrySubscriptionsResponse


async def subscribe(node: LiveNode, name: str, **configs: str | None) -> None:
    changes = {
        key.replace("_", "."): Change(Operation.DELETE if value is None else Operation.SET, value)
        for key, value in configs.items()
    }
    async with Admin(node.bootstrap) as admin:
        await admin.configs.alter(Resource.client_metrics(name), changes)


async def subscriptions(client: RawClient, instance_id: Uuid = ZERO_UUID) -> Subscriptions:
    return await client.call(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), GetTelemetrySubscriptionsResponse
    )


async def push(
    client: RawClient,
    to: Subscriptions,
    payload: bytes,
    codec: int = Codec.NONE,
    *,
    terminating: bool = False,
) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=to.client_instance_id,
        subscription_id=to.subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=payload,
    )
    return ErrorCode((await client.call(request, PushTelemetryResponse)).error_code)


async def new_client(client: RawClient) -> Subscriptions:
    """The subscriptions of a new client instance, whose first push is accepted at once."""
    response = await subscriptions(client)
    assert response.error_code == 0
    return response


async def test_pushes_are_exported_in_every_compression(tmp_path: Path) -> None:
    properties = {"telemetry.max.bytes": str(MAX_BYTES)}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        nothing = await new_client(client)
        assert nothing.requested_metrics == []
        assert nothing.push_interval_ms == 300_000
        assert nothing.accepted_compression_types == [4, 3, 1, 2]
        assert (nothing.telemetry_max_bytes, nothing.delta_temporality) == (MAX_BYTES, True)
        await subscribe(
            node, "s", metrics="org.apache.kafka.consumer.", interval_ms="100", match="client_id=test"
        )
        data = metrics_data(
            gauge("org.apache.kafka.consumer.lag", point(3, topic='a"b\\c\nd')),
            counter("org.apache.kafka.consumer.records", point(5)),
            histogram("org.apache.kafka.consumer.latency", [1.0], [2, 1], 7.5),
            gauge("org.apache.kafka.producer.unrequested", point(1)),
            group_id="billing",
        )
        ids: list[str] = []
        for codec in (Codec.NONE, *ACCEPTED_COMPRESSION):
            each = await new_client(client)
            assert each.requested_metrics == ["org.apache.kafka.consumer."]
            assert await push(client, each, compress(codec, data), codec) is ErrorCode.NONE
            ids.append(uuid_to_text(each.client_instance_id))
        seen = await scrape(node.node)
        for each_id in ids:
            labels = {"client_id": "test", "client_instance_id": each_id, "group_id": "billing"}
            name = "kafka_client_consumer"
            assert seen.value(f"{name}_lag", **labels, topic='a"b\\c\nd') == 3
            assert seen.value(f"{name}_records_total", **labels) == 5
            assert seen.value(f"{name}_latency_bucket", **labels, le="1.0") == 2
            assert seen.value(f"{name}_latency_bucket", **labels, le="+Inf") == 3
            assert seen.value(f"{name}_latency_sum", **labels) == 7.5
            assert seen.value(f"{name}_latency_count", **labels) == 3
        assert not any("unrequested" in name for name in seen.sample_names)
        assert seen.value("ruslo_client_metrics_series") == 3 * len(ids)
        assert seen.value("kafka_server_client_metrics_instance_count") == 1 + len(ids)
        await rejected_pushes(node, client, data)


async def rejected_pushes(node: LiveNode, client: RawClient, data: bytes) -> None:
    before = (await scrape(node.node)).value("ruslo_client_metrics_series")
    truncated = await new_client(client)
    assert await push(client, truncated, data[:-1]) is ErrorCode.INVALID_RECORD
    not_gzip = await new_client(client)
    assert await push(client, not_gzip, data, Codec.GZIP) is ErrorCode.INVALID_RECORD
    large = await new_client(client)
    assert await push(client, large, bytes(MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE
    bomb = await new_client(client)
    assert (
        await push(client, bomb, compress(Codec.GZIP, bytes(10**7)), Codec.GZIP)
        is ErrorCode.TELEMETRY_TOO_LARGE
    )
    codec = await new_client(client)
    assert await push(client, codec, data, 9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    no_id = GetTelemetrySubscriptionsResponse(subscription_id=codec.subscription_id)
    assert await push(client, no_id, data) is ErrorCode.INVALID_REQUEST
    unknown = await new_client(client)
    unknown.subscription_id ^= 1
    assert await push(client, unknown, data) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    last = await new_client(client)
    assert await push(client, last, b"", terminating=True) is ErrorCode.NONE
    assert await push(client, last, data) is ErrorCode.INVALID_REQUEST
    again = await subscriptions(client, codec.client_instance_id)
    assert (again.error_code, again.client_instance_id) == (0, codec.client_instance_id)
    await subscribe(node, "s", metrics=None, match=None, interval_ms="3600000")
    slow = await new_client(client)
    assert ErrorCode((await subscriptions(client, slow.client_instance_id)).error_code) is (
        ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )
    seen = await scrape(node.node)
    assert seen.value("ruslo_client_metrics_series") == before
    assert seen.value("kafka_server_client_metrics_unknown_subscription_request_total") == 1


async def test_librdkafka_pushes_its_metrics(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        await node.create("t")
        match = "client_id=orders-.*,client_software_name=.*(kafka|librdkafka).*,client_source_address=127.*"
        await subscribe(node, "producers", metrics="*", interval_ms="100", match=match)
        producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "orders-7", "linger.ms": 0})
        connections = "kafka_client_producer_connection_creation_total"
        while True:
            producer.produce("t", b"x")
            await asyncio.to_thread(producer.flush, 10)
            seen = await scrape(node.node)
            if connections in seen.sample_names:
                break
        (labels,) = seen.labels_of(connections)
        assert labels["client_id"] == "orders-7"
        assert len(labels["client_instance_id"]) == 22
        assert seen.value("kafka_client_producer_request_latency_max", **labels) is not None


async def test_telemetry_demands_nothing_and_its_configs_demand_cluster_access(tmp_path: Path) -> None:
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        assert await push(client, await new_client(client), metrics_data()) is ErrorCode.NONE
        resource = Resource.client_metrics("s")
        async with Admin(node.bootstrap) as admin:
            for denied in (
                admin.configs.alter(resource, {"metrics": Change(Operation.SET, "*")}),
                admin.configs.describe(resource),
                admin.configs.client_metrics_names(),
            ):
                with pytest.raises(KafkaError) as denial:
                    await denied
                assert denial.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_series_of_silent_clients_expire(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        hello = ApiVersionsRequest(client_software_name="mine", client_software_version="1.2")
        await client.call(hello, ApiVersionsResponse)
        port = client.writer.get_extra_info("sockname")[1]
        match = f"client_software_name=mine,client_software_version=1[.]2,client_source_port={port}"
        await subscribe(node, "s", metrics="*", match=match)
        await push(client, await new_client(client), metrics_data(gauge("a", point(1))))
        assert "kafka_client_a" in (await scrape(node.node)).sample_names
        telemetry = node.node.broker.telemetry
        telemetry.instances.expire(SystemClock().monotonic_ms() + 3 * 300_000 + 60_000)
        assert (telemetry.series.count, len(telemetry.instances)) == (0, 0)
        assert "kafka_client_a" not in (await scrape(node.node)).sample_names
