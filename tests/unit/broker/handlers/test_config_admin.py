"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources, including loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ruslo.broker.handlers import (
    alter_configs,
    create_topics,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from ruslo.broker.handlers.describe_configs import LOST_DATA
from ruslo.broker.requests.access import NO_ACCESS
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import alter_configs_request as legacy
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ruslo.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ruslo.storage.lost_data import LossKind, LostData
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import FEATURES, AdminNode, admin_node

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(
    node: AdminNode, kind: int, name: str, keys: list[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=True,
        include_documentation=version >= 3,
    )
    (result,) = (await exchange(describe_configs.handle, node, request, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


async def alter(
    node: object, kind: int, name: str, *changes: tuple[str, int, str | None], listener: str = "PLAINTEXT"
) -> ErrorCode:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    at_broker = listener != "CONTROLLER"
    handle = incremental_alter_configs.handle_at_broker if at_broker else incremental_alter_configs.handle
    (response,) = (await exchange(handle, node, request, None, listener)).responses  # type: ignore[attr-defined]
    return ErrorCode(response.error_code)


async def create_topic(node: AdminNode) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await exchange(create_topics.handle, node, CreateTopicsRequest(topics=[topic]))


@pytest.mark.parametrize("version", range(1, 5))
async def test_topic_in_every_version(version: int) -> None:
    async with admin_node({"log.retention.ms": "60000"}) as node:
        await create_topic(node)
        await alter(node, TOPIC, "t", ("segment.ms", 0, "2000"))
        configs = by_name(await describe(node, TOPIC, "t", version=version))
        assert len(configs) > 30, "all configs are included, not only the changed ones"
        own, inherited = configs["segment.ms"], configs["retention.ms"]
        assert (own.value, own.config_source) == ("2000", 1)
        assert (inherited.value, inherited.config_source) == ("60000", 4)
        assert inherited.synonyms[0].name == "log.retention.ms"
        assert bool(own.documentation) == (version >= 3)
        few = by_name(await describe(node, TOPIC, "t", ["segment.ms"], version))
        assert list(few) == ["segment.ms"]


async def test_brokers() -> None:
    async with admin_node() as node:
        assert await alter(node, BROKER, "", ("log.cleaner.threads", 0, "2")) is ErrorCode.NONE
        assert await alter(node, BROKER, "1", ("log.cleaner.threads", 0, "3")) is ErrorCode.NONE
        entry = by_name(await describe(node, BROKER, "1"))["log.cleaner.threads"]
        assert [(each.value, each.source) for each in entry.synonyms] == [("3", 2), ("2", 3), ("1", 5)]
        assert set(by_name(await describe(node, BROKER, ""))) == {
            "log.cleaner.threads",
            "min.insync.replicas",
        }
        assert node.dynamic_config.current.int("log.cleaner.threads") == 3


async def replace(node: object, name: str, key: str, value: str, listener: str = "PLAINTEXT") -> ErrorCode:
    config = legacy.AlterableConfig(name=key, value=value)
    resource = legacy.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[config])
    request = AlterConfigsRequest(resources=[resource])
    handle = alter_configs.handle if listener == "CONTROLLER" else alter_configs.handle_at_broker
    (response,) = (await exchange(handle, node, request, None, listener)).responses  # type: ignore[attr-defined]
    return ErrorCode(response.error_code)


async def test_broker_validates_its_own_configs() -> None:
    """The controller does not know the broker's property file, and its own differs."""
    async with admin_node() as active:
        # A node with other static configs stores the change.
        own = AdminNode({"log.dirs": "/a,/b", "log.cleaner.dedupe.buffer.size": "2097152"})
        settings = {"config": own.config, "dynamic_config": own.dynamic_config}
        broker = SimpleNamespace(**{**vars(active), **settings, "gateway": active.gateway})
        threads = ("log.cleaner.threads", 0, "2")
        for name in ("1", ""):
            assert await alter(broker, BROKER, name, threads) is ErrorCode.INVALID_REQUEST
            assert await replace(broker, name, "log.cleaner.threads", "2") is ErrorCode.INVALID_REQUEST
            assert await alter(active, BROKER, name, threads) is ErrorCode.NONE
            assert await alter(active, BROKER, name, ("log.cleaner.threads", 1, None)) is ErrorCode.NONE
        assert await alter(broker, BROKER, "1", ("cordoned.log.dirs", 0, "/b")) is ErrorCode.NONE
        assert await replace(broker, "1", "cordoned.log.dirs", "*") is ErrorCode.NONE
        assert dict(active.image.configs.of(BROKER, "1")) == {"cordoned.log.dirs": "*"}
        rejected = [("1", "/c"), ("1", "*,/a"), ("", "*"), ("2", "/a")]
        for name, value in rejected:
            change = ("cordoned.log.dirs", 0, value)
            assert await alter(broker, BROKER, name, change) is ErrorCode.INVALID_REQUEST
            assert await replace(broker, name, "cordoned.log.dirs", value) is ErrorCode.INVALID_REQUEST


async def test_controller_accepts_only_the_removal_of_cordons() -> None:
    async with admin_node({"log.dirs": "/a,/b"}) as node:

        async def direct(value: str) -> ErrorCode:
            change = ("cordoned.log.dirs", 0, value)
            return await alter(node, BROKER, "1", change, listener="CONTROLLER")

        assert await direct("/a") is ErrorCode.INVALID_CONFIG
        replaced = await replace(node, "1", "cordoned.log.dirs", "*", "CONTROLLER")
        assert replaced is ErrorCode.INVALID_CONFIG
        assert await alter(node, BROKER, "1", ("cordoned.log.dirs", 0, "/a,/b")) is ErrorCode.NONE
        assert await direct("/a, /b") is ErrorCode.NONE
        assert await direct("/b") is ErrorCode.NONE
        assert await direct("/a") is ErrorCode.INVALID_CONFIG
        assert await direct("") is ErrorCode.NONE


async def test_a_client_without_permission_learns_nothing_from_a_validation() -> None:
    async with admin_node() as node:
        checked: list[object] = []
        node.check_config = checked.append
        configs = [AlterableConfig(name="listener.name.x.ssl.keystore.location", value="/etc/shadow")]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        given = [legacy.AlterableConfig(name=each.name, value=each.value) for each in configs]
        whole = legacy.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=given)
        for handle, sent in (
            (incremental_alter_configs.handle_at_broker, request),
            (alter_configs.handle_at_broker, AlterConfigsRequest(resources=[whole])),
        ):
            (result,) = (await exchange(handle, node, sent, access=NO_ACCESS)).responses  # type: ignore[attr-defined]
            assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert checked == []


async def test_users_and_mechanisms_of_an_open_listener_cannot_change() -> None:
    """A removed user could go on, although the change had succeeded."""
    async with admin_node() as node:
        users = "x.y.PlainLoginModule required;"
        for key, value in (
            ("plain.sasl.jaas.config", users),
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
            ("ssl.client.auth", "none"),
        ):
            change = (f"listener.name.plaintext.{key}", 0, value)
            assert await alter(node, BROKER, "1", change) is ErrorCode.INVALID_REQUEST
            assert await replace(node, "1", change[0], value) is ErrorCode.INVALID_REQUEST
        for key, value in (("max.connections", "7"), ("ssl.keystore.location", "/new.pem")):
            change = (f"listener.name.plaintext.{key}", 0, value)
            assert await alter(node, BROKER, "1", change) is ErrorCode.NONE
        assert (
            await alter(node, BROKER, "1", ("listener.name.other.ssl.client.auth", 0, "none"))
            is ErrorCode.NONE
        )


def test_cordons_need_a_metadata_version() -> None:
    async def scenario() -> None:
        async with admin_node({"log.dirs": "/a,/b"}, {**FEATURES, "metadata.version": 29}) as node:
            for value in ("/a", ""):
                change = ("cordoned.log.dirs", 0, value)
                assert await alter(node, BROKER, "1", change) is ErrorCode.INVALID_CONFIG


async def test_broker_reports_lost_data() -> None:
    async with admin_node() as node:
        assert LOST_DATA not in by_name(await describe(node, BROKER, "1"))
        lost = LostData(TopicPartition("t", 0), LossKind.TAIL, "a segment is gone", 411, 750)
        node.lost_data.add(lost)
        for offset in range(200):
            node.lost_data.add(LostData(lost.partition, LossKind.RECORDS, "bad checksum", offset, 201))
        entry = by_name(await describe(node, BROKER, "1"))[LOST_DATA]
        lines = (entry.value or "").splitlines()
        assert (lines[0], lines[-1], len(lines)) == (str(lost), "and 101 more", 101)
        assert entry.read_only


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_unknown_resources_cannot_be_described(kind: int, name: str, code: ErrorCode) -> None:
    async with admin_node() as node:
        result = await describe(node, kind, name)
        assert ErrorCode(result.error_code) is code
        assert result.error_message


async def test_groups() -> None:
    async with admin_node() as node:
        assert await alter(node, GROUP, "g", ("consumer.session.timeout.ms", 0, "50000")) is ErrorCode.NONE
        entry = by_name(await describe(node, GROUP, "g"))["consumer.session.timeout.ms"]
        assert (entry.value, entry.config_source) == ("50000", 8)


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs(version: int) -> None:
    async with admin_node() as node:
        await create_topic(node)
        resource = legacy.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="t",
            configs=[legacy.AlterableConfig(name="segment.ms", value="2000")],
        )
        request = AlterConfigsRequest(resources=[resource])
        (response,) = (await exchange(alter_configs.handle, node, request, version)).responses
        assert response.error_code == 0
        assert dict(node.image.configs.of_topic("t")) == {"segment.ms": "2000"}
        node.raft.resign()
        (response,) = (await exchange(alter_configs.handle, node, request, version)).responses
        assert ErrorCode(response.error_code) is ErrorCode.NOT_CONTROLLER
        assert await alter(node, TOPIC, "t", ("segment.ms", 1, None)) is ErrorCode.NOT_CONTROLLER


@pytest.fixture
def some_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("ruslo.some.logger")
    yield logger
    logger.setLevel(logging.NOTSET)


async def test_loggers(some_logger: logging.Logger) -> None:
    async with admin_node() as node:
        assert await alter(node, LOGGER, "1", (some_logger.name, 0, "ERROR")) is ErrorCode.NONE
        assert some_logger.level == logging.ERROR
        entry = by_name(await describe(node, LOGGER, "1"))[some_logger.name]
        assert (entry.value, entry.config_source) == ("ERROR", 6)
        assert await alter(node, LOGGER, "1", (some_logger.name, 0, "LOUD")) is ErrorCode.INVALID_CONFIG
        assert await alter(node, LOGGER, "1", (some_logger.name, 2, "INFO")) is ErrorCode.INVALID_REQUEST
        assert await alter(node, LOGGER, "1", ("ruslo.unknown", 0, "INFO")) is ErrorCode.INVALID_CONFIG
        assert await alter(node, LOGGER, "1", ("root", 1, None)) is ErrorCode.INVALID_REQUEST
        assert await alter(node, LOGGER, "2", ("root", 0, "INFO")) is ErrorCode.INVALID_REQUEST
        assert some_logger.level == logging.ERROR
        assert await alter(node, LOGGER, "1", (some_logger.name, 1, None)) is ErrorCode.NONE
        assert some_logger.level == logging.NOTSET


async def test_loggers_change_together_or_not_at_all(some_logger: logging.Logger) -> None:
    async with admin_node() as node:
        louder, quieter = (some_logger.name, 0, "TRACE"), (some_logger.name, 0, "FATAL")
        assert await alter(node, LOGGER, "1", louder, quieter) is ErrorCode.INVALID_REQUEST
        assert await alter(node, LOGGER, "1", louder, ("absent", 0, "INFO")) is ErrorCode.INVALID_CONFIG
        assert await alter(node, LOGGER, "1", (some_logger.name, 0, None)) is ErrorCode.INVALID_REQUEST
        assert await alter(node, LOGGER, "1", (some_logger.name, 0, "error")) is ErrorCode.INVALID_CONFIG
        assert some_logger.level == logging.NOTSET
        for name, level in (("TRACE", 5), ("WARN", logging.WARNING), ("FATAL", logging.CRITICAL)):
            assert await alter(node, LOGGER, "1", (some_logger.name, 0, name)) is ErrorCode.NONE
            assert some_logger.level == level
            assert by_name(await describe(node, LOGGER, "1"))[some_logger.name].value == name


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
async def test_loggers_are_changed_once_in_a_request(some_logger: logging.Logger, listener: str) -> None:
    async with admin_node() as node:
        changes = [AlterableConfig(name=some_logger.name, config_operation=0, value="ERROR")]
        twice = [AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=changes)] * 2
        request = IncrementalAlterConfigsRequest(resources=twice)
        at_broker = listener != "CONTROLLER"
        handle = incremental_alter_configs.handle_at_broker if at_broker else incremental_alter_configs.handle
        response: Any = await exchange(handle, node, request, None, listener)
        assert [ErrorCode(each.error_code) for each in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert some_logger.level == logging.NOTSET
        request = IncrementalAlterConfigsRequest(resources=twice[:1], validate_only=True)
        response = await exchange(handle, node, request, None, listener)
        assert [each.error_code for each in response.responses] == [ErrorCode.NONE]
        assert some_logger.level == logging.NOTSET


async def test_loggers_of_a_module_that_has_none_and_of_libraries(some_logger: logging.Logger) -> None:
    async with admin_node() as node:
        library = logging.getLogger("some_library")
        levels = by_name(await describe(node, LOGGER, "1"))
        assert {"root", "ruslo.some", some_logger.name, library.name} <= levels.keys()
        assert by_name(await describe(node, LOGGER, "1", ["root"])).keys() == {"root"}
        assert await alter(node, LOGGER, "1", ("ruslo.some", 0, "ERROR")) is ErrorCode.NONE
        assert by_name(await describe(node, LOGGER, "1"))[some_logger.name].value == "ERROR"
        assert await alter(node, LOGGER, "1", ("ruslo.some", 1, None)) is ErrorCode.NONE


async def test_loggers_cannot_be_replaced() -> None:
    """AlterConfigs does not support them, as in Kafka."""
    async with admin_node() as node:
        resource = legacy.AlterConfigsResource(
            resource_type=LOGGER,
            resource_name="1",
            configs=[legacy.AlterableConfig(name="root", value="INFO")],
        )
        request = AlterConfigsRequest(resources=[resource])
        for handle, listener in (
            (alter_configs.handle_at_broker, "PLAINTEXT"),
            (alter_configs.handle, "CONTROLLER"),
        ):
            (response,) = (await exchange(handle, node, request, None, listener)).responses  # type: ignore[attr-defined]
            assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_resources_are_listed() -> None:
    async with admin_node() as node:
        await create_topic(node)
        await alter(node, GROUP, "g", ("consumer.session.timeout.ms", 0, "50000"))

        async def listed(*kinds: int, version: int = 1) -> list[tuple[int, str]]:
            request = ListConfigResourcesRequest(resource_types=list(kinds))
            response = await exchange(list_config_resources.handle, node, request, version)
            assert response.error_code == 0
            return [(each.resource_type, each.resource_name) for each in response.config_resources]

        all_resources = [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (GROUP, "g")]
        assert await listed() == all_resources
        assert await listed(GROUP, TOPIC) == [(GROUP, "g"), (TOPIC, "t")]
        assert await listed(version=0) == []
        await alter(node, METRICS, "m", ("interval.ms", 0, "1000"))
        assert await listed(version=0) == [(METRICS, "m")]
        assert await listed(METRICS) == [(METRICS, "m")]
        unknown = ListConfigResourcesRequest(resource_types=[3])
        response = await exchange(list_config_resources.handle, node, unknown)
        assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION


async def test_client_metrics() -> None:
    async with admin_node() as node:
        assert await alter(node, METRICS, "", ("metrics", 0, "*")) is ErrorCode.INVALID_REQUEST
        assert await alter(node, METRICS, "m", ("metric", 0, "*")) is ErrorCode.INVALID_REQUEST
        assert await alter(node, METRICS, "m", ("metrics", 0, "a.,b.")) is ErrorCode.NONE
        configs = by_name(await describe(node, METRICS, "m"))
        assert {name: each.value for name, each in configs.items()} == {
            "metrics": "a.,b.",
            "interval.ms": "300000",
            "match": "",
        }
        assert (configs["metrics"].config_source, configs["match"].config_source) == (7, 5)
        assert [(each.value, each.source) for each in configs["metrics"].synonyms] == [("a.,b.", 7)]
        assert (await describe(node, METRICS, "")).error_code == ErrorCode.INVALID_REQUEST
        assert await alter(node, METRICS, "m", ("metrics", 1, None)) is ErrorCode.NONE
        assert (METRICS, "m") not in node.image.configs.by_resource
