"""ApiVersions announces exactly the supported versions."""

from __future__ import annotations

import pytest

from ruslo.broker.dispatch.api_table import HANDLERS, controller_catalog
from ruslo.broker.handlers import api_versions, incremental_alter_configs
from ruslo.machines.controller.config_image import CLIENT_METRICS
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import FEATURES, admin_node

TELEMETRY = {"GetTelemetrySubscriptions", "PushTelemetry"}


@pytest.mark.parametrize("version", range(6))
async def test_table(version: int) -> None:
    async with admin_node() as node:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = await exchange(api_versions.handle, node, request, version)
        served = {API_BY_KEY[each.api_key].name: each for each in response.api_keys}
        assert served.keys() == {"Produce", "Fetch", *HANDLERS} - TELEMETRY
        assert [each.api_key for each in response.api_keys] == sorted(
            each.api_key for each in response.api_keys
        )
        assert (served["Produce"].min_version, served["Fetch"].min_version) == (0, 4)
        assert served["InitProducerId"].max_version == 5, "unstable versions are not announced"
        finalized = {each.name: each.max_version_level for each in response.finalized_features}
        supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
        if version < 3:
            assert not finalized
            assert not supported
            return
        assert finalized == FEATURES | {"kraft.version": 1}
        assert response.finalized_features_epoch == node.image.offset
        assert supported["metadata.version"] == (7, 30)
        assert ("transaction.version" in supported) == (version >= 4)


@pytest.mark.parametrize(("kind", "listener"), [("feature", "PLAINTEXT"), ("api", "CONTROLLER")])
async def test_unstable_levels_are_announced_where_they_are_enabled(kind: str, listener: str) -> None:
    async with admin_node({f"unstable.{kind}.versions.enable": "true"}) as node:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        newest = {}
        for each in ("PLAINTEXT", "CONTROLLER"):
            response = await exchange(api_versions.handle, node, request, listener=each)
            levels = {feature.name: feature.max_version for feature in response.supported_features}
            newest[each] = levels["metadata.version"]
        assert newest == {"PLAINTEXT": 30, "CONTROLLER": 30} | {listener: 31}


async def test_telemetry_is_announced_while_there_is_a_subscription() -> None:
    async with admin_node() as node:

        async def announced() -> set[str]:
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            response = await exchange(api_versions.handle, node, request, 4)
            return {API_BY_KEY[each.api_key].name for each in response.api_keys} & TELEMETRY

        async def set_metrics(name: str, value: str | None) -> None:
            config = AlterableConfig(name="metrics", config_operation=int(value is None), value=value)
            resource = AlterConfigsResource(
                resource_type=CLIENT_METRICS, resource_name=name, configs=[config]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            response = await exchange(incremental_alter_configs.handle_at_broker, node, request)
            assert isinstance(response, IncrementalAlterConfigsResponse)
            assert response.responses[0].error_code == ErrorCode.NONE

        assert await announced() == set()
        for name in ("a", "b"):
            await set_metrics(name, "*")
        assert await announced() == TELEMETRY
        assert node.image.copy().configs.client_metrics == {"a", "b"}
        await set_metrics("a", None)
        assert await announced() == TELEMETRY
        await set_metrics("b", None)
        assert await announced() == set()


async def test_controller_listeners_serve_less() -> None:
    async with admin_node() as node:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        node.apis = controller_catalog()
        response = await exchange(api_versions.handle, node, request, 4, "CONTROLLER")
        names = {API_BY_KEY[each.api_key].name for each in response.api_keys}
        assert {"ApiVersions", "CreateTopics", "DescribeQuorum"} <= names
        assert not {"Produce", "Metadata", "ListOffsets"} & names


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
async def test_a_misrouted_client_learns_that_it_must_rebootstrap(listener: str) -> None:
    async with admin_node() as node:

        async def code(cluster_id: str | None, node_id: int, version: int = 5) -> ErrorCode:
            request = ApiVersionsRequest(
                client_software_name="test",
                client_software_version="1",
                cluster_id=cluster_id,
                node_id=node_id,
            )
            try:
                await exchange(api_versions.handle, node, request, version, listener)
            except KafkaError as error:
                return error.code
            return ErrorCode.NONE

        assert await code(node.cluster_id, node.node_id) is ErrorCode.NONE
        assert await code(None, -1) is ErrorCode.NONE
        assert await code("another cluster", node.node_id) is ErrorCode.REBOOTSTRAP_REQUIRED
        assert await code(node.cluster_id, node.node_id + 1) is ErrorCode.REBOOTSTRAP_REQUIRED
        assert await code(None, node.node_id) is ErrorCode.INVALID_REQUEST
        assert await code(node.cluster_id, -1) is ErrorCode.INVALID_REQUEST
        assert await code("another cluster", 7, version=4) is ErrorCode.NONE


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@pytest.mark.parametrize("invalid", ["", "-name", "name-", "a b", "name!", "n\n"])
async def test_client_software_name_is_checked(invalid: str, listener: str) -> None:
    async with admin_node() as node:
        for name, software_version in ((invalid, "1.0"), ("test", invalid)):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
            for version in (3, 4):
                with pytest.raises(KafkaError) as caught:
                    await exchange(api_versions.handle, node, request, version, listener)
                assert caught.value.code is ErrorCode.INVALID_REQUEST
            assert (await exchange(api_versions.handle, node, request, 2, listener)).api_keys
