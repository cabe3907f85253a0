from __future__ import annotations

import pytest

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinated, Coordinators, value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from tests.support.brokers.scripted_broker import (
    ReceivedRequest,
    ScriptedBroker,
    ScriptedResponse,
    all_versions,
)


class Directory:
    """A broker that serves FindCoordinator from a table, after the given error codes."""

    def __init__(self, nodes: dict[str, int], first_codes: list[int] | None = None) -> None:
        self.nodes = nodes
        self.first_codes = first_codes or []
        self.limits: dict[int, tuple[int, int]] = {}

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key == ApiVersionsRequest.API_KEY:
            return all_versions(self.limits)
        if not isinstance(received.message, FindCoordinatorRequest):
            raise KeyError
        code = self.first_codes.pop(0) if self.first_codes else 0
        if received.version < 4:
            return FindCoordinatorResponse(node_id=self.nodes[received.message.key], error_code=code)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=-1 if code else self.nodes[key], error_code=code)
                for key in received.message.coordinator_keys
            ]
        )


async def test_a_coordinator_that_left_the_cluster_is_looked_up_again() -> None:
    directory = Directory({"a": 1, "b": 2})

    async def query(node: int, owned: list[str]) -> dict[str, str]:
        if node == 2:
            directory.nodes["b"] = 1
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 does not exist")
        return {group_id: f"{group_id}@{node}" for group_id in owned}

    async with ScriptedBroker(directory) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        assert await Coordinators(cluster).each(["a", "b"], query) == {"a": "a@1", "b": "b@1"}


async def test_each_coordinator_is_queried_for_its_own_groups() -> None:
    directory = Directory({"a": 1, "b": 2, "c": 1})
    received: list[tuple[int, list[str]]] = []

    async def query(node: int, owned: list[str]) -> dict[str, str]:
        received.append((node, owned))
        return {group_id: f"{group_id}@{node}" for group_id in owned}

    async with ScriptedBroker(directory) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        coordinators = Coordinators(cluster)
        found = await coordinators.each(["a", "b", "c"], query)
        assert found == {"a": "a@1", "b": "b@2", "c": "c@1"}
        assert sorted(received) == [(1, ["a", "c"]), (2, ["b"])]
        assert await coordinators.find("b") == 2
        assert len(broker.requests_of(FindCoordinatorRequest.API_KEY)) == 1


async def test_old_brokers_are_queried_group_by_group() -> None:
    directory = Directory({"a": 1, "b": 2})
    directory.limits = {FindCoordinatorRequest.API_KEY: (0, 3)}
    async with ScriptedBroker(directory) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        coordinators = Coordinators(cluster)
        assert [await coordinators.find(group_id) for group_id in "ab"] == [1, 2]
        versions = {received.version for received in broker.requests_of(FindCoordinatorRequest.API_KEY)}
        assert versions == {3}


@pytest.mark.parametrize("newest", [0, 3, 6])
async def test_coordinators_of_transactions(newest: int) -> None:
    directory = Directory({"x": 2})
    directory.limits = {FindCoordinatorRequest.API_KEY: (0, newest)}
    async with ScriptedBroker(directory) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        coordinators = Coordinators(cluster, Coordinated.TRANSACTION)
        if newest == 0:  # version 0 finds coordinators of groups only
            with pytest.raises(KafkaError) as caught:
                await coordinators.find("x")
            assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
            return
        assert await coordinators.find("x") == 2
        (received,) = broker.requests_of(FindCoordinatorRequest.API_KEY)
        assert isinstance(received.message, FindCoordinatorRequest)
        assert received.message.key_type == Coordinated.TRANSACTION


async def test_many_groups_are_queried_in_chunks() -> None:
    names = [f"g{number}" for number in range(1201)]
    sizes: list[int] = []

    async def query(node: int, owned: list[str]) -> dict[str, int]:
        sizes.append(len(owned))
        return dict.fromkeys(owned, node)

    directory = Directory(dict.fromkeys(names, 1))
    async with ScriptedBroker(directory) as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        assert await Coordinators(cluster).each(names, query) == dict.fromkeys(names, 1)
        assert sizes == [500, 500, 201]


async def test_an_unavailable_coordinator_is_retried() -> None:
    directory = Directory({"a": 1}, [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2)
    async with (
        ScriptedBroker(directory) as broker,
        Cluster(f"127.0.0.1:{broker.port}", retry_backoff_ms=1) as cluster,
    ):
        assert await Coordinators(cluster).find("a") == 1
        assert len(broker.requests_of(FindCoordinatorRequest.API_KEY)) == 3


async def test_only_the_moved_group_is_looked_up_again() -> None:
    directory = Directory({"moved": 1, "stays": 1})
    received: list[tuple[int, list[str]]] = []

    async def query(node: int, owned: list[str]) -> dict[str, str | KafkaError]:
        received.append((node, owned))
        directory.nodes["moved"] = 2
        return {
            group_id: KafkaError(ErrorCode.NOT_COORDINATOR) if group_id == "moved" and node == 1 else "fine"
            for group_id in owned
        }

    async with (
        ScriptedBroker(directory) as broker,
        Cluster(f"127.0.0.1:{broker.port}", retry_backoff_ms=1) as cluster,
    ):
        found = await Coordinators(cluster).each(["moved", "stays"], query)
        assert found == {"moved": "fine", "stays": "fine"}
        assert received == [(1, ["moved", "stays"]), (2, ["moved"])]


async def test_an_error_is_the_result_of_its_group_alone() -> None:
    directory = Directory({"good": 1, "bad": 1, "busy": 1, "left-out": 1})

    async def query(node: int, owned: list[str]) -> dict[str, str | KafkaError]:
        return {
            "good": "fine",
            "bad": KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"),
            "busy": KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "still loading"),
        }

    async with (
        ScriptedBroker(directory) as broker,
        Cluster(f"127.0.0.1:{broker.port}", api_timeout_ms=60, retry_backoff_ms=5) as cluster,
    ):
        found = await Coordinators(cluster).each(["good", "bad", "busy", "left-out"], query)
        assert found["good"] == "fine"
        assert isinstance(found["left-out"], ConnectionLost)
        with pytest.raises(KafkaError, match="still loading"):
            value_of(found["busy"])
        with pytest.raises(KafkaError) as caught:
            value_of(found["bad"])
        assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_an_unreachable_cluster_fails_the_whole_call() -> None:
    async def query(node: int, owned: list[str]) -> dict[str, str]:
        raise AssertionError("no coordinator can be queried")

    async with Cluster("127.0.0.1:1") as cluster:
        with pytest.raises(BrokerUnreachable):
            await Coordinators(cluster).each(["a"], query)
