"""AlterConfigs and IncrementalAlterConfigs: errors by resource and key. AlterConfigs replaces all configs."""

from __future__ import annotations

import pytest

from ruslo.machines.controller.config_image import BROKER, TOPIC
from ruslo.machines.controller.topic_image import RECOVERING
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages import alter_configs_request as legacy
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_configs_response import AlterConfigsResponse
from ruslo.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.support.machines.controller_bench import MachineBench
from tests.unit.machines.controller.requests import create_topic

SET, DELETE, APPEND, SUBTRACT = range(4)


def bench_with_topic() -> MachineBench:
    bench = MachineBench.started()
    create_topic(bench, 1, 1)
    return bench


def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    changes = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in configs]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)


def alter(
    bench: MachineBench, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[ErrorCode]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = bench.respond(request, IncrementalAlterConfigsResponse)
    return [ErrorCode(each.error_code) for each in response.responses]


def test_successful_changes_carry_no_message() -> None:
    """The message is null, as in Kafka: some clients treat an empty text as an error message."""
    bench = bench_with_topic()
    changed = IncrementalAlterConfigsRequest(resources=[resource(2, "t", ("retention.ms", SET, "1"))])
    replaced = AlterConfigsRequest(
        resources=[legacy.AlterConfigsResource(resource_type=2, resource_name="t", configs=[])]
    )
    (one,) = bench.respond(changed, IncrementalAlterConfigsResponse).responses
    (other,) = bench.respond(replaced, AlterConfigsResponse).responses
    assert (one.error_code, one.error_message) == (0, None)
    assert (other.error_code, other.error_message) == (0, None)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (resource(2, "nowhere", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(2, "no/name", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(2, "t", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource(2, "t", ("nonsense", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(2, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource(2, "t", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (resource(2, "t", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (
            resource(2, "t", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
            ErrorCode.INVALID_REQUEST,
        ),
        (resource(4, "7", ("log.cleaner.threads", SET, "2")), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (resource(4, "one", ("log.cleaner.threads", SET, "2")), ErrorCode.INVALID_REQUEST),
        (resource(4, "1", ("node.id", SET, "2")), ErrorCode.INVALID_REQUEST),
        (resource(8, "1", ("root", SET, "DEBUG")), ErrorCode.INVALID_REQUEST),
        (resource(32, "", ("consumer.session.timeout.ms", SET, "50000")), ErrorCode.INVALID_REQUEST),
        (resource(16, "metrics", ("interval.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(99, "x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_changes_are_rejected(changed: AlterConfigsResource, code: ErrorCode) -> None:
    bench = bench_with_topic()
    before = len(bench.log)
    assert alter(bench, changed, resource(4, "", ("log.cleaner.threads", SET, "2"))) == [code, ErrorCode.NONE]
    assert len(bench.log) == before + 1, "the other resource is still changed"


def test_resource_named_twice() -> None:
    once = resource(2, "t", ("retention.ms", SET, "1"))
    assert alter(bench_with_topic(), once, once) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_append_to_and_subtract_from_a_list() -> None:
    bench = bench_with_topic()

    def policy() -> str | None:
        return bench.image.configs.of_topic("t").get("cleanup.policy")

    alter(bench, resource(2, "t", ("cleanup.policy", APPEND, "compact")))
    assert policy() == "delete,compact"
    alter(bench, resource(2, "t", ("cleanup.policy", SUBTRACT, "delete")))
    assert policy() == "compact"
    alter(bench, resource(2, "t", ("cleanup.policy", DELETE, None)))
    assert policy() is None


def test_validate_only() -> None:
    bench = bench_with_topic()
    before = len(bench.log)
    assert alter(bench, resource(2, "t", ("retention.ms", SET, "1")), validate_only=True) == [ErrorCode.NONE]
    assert len(bench.log) == before


def test_controller_only_node_has_configs() -> None:
    bench = bench_with_topic()
    change = resource(4, "3000", ("log.cleaner.threads", SET, "2"))
    assert alter(bench, change) == [ErrorCode.BROKER_ID_NOT_REGISTERED]
    bench.submit(ControllerRegistrationRequest(controller_id=3000))
    assert alter(bench, change) == [ErrorCode.NONE]
    assert dict(bench.image.configs.of(4, "3000")) == {"log.cleaner.threads": "2"}


def test_groups_have_configs() -> None:
    bench = bench_with_topic()
    assert alter(bench, resource(32, "g", ("consumer.session.timeout.ms", SET, "50000"))) == [ErrorCode.NONE]
    assert dict(bench.image.configs.of(32, "g")) == {"consumer.session.timeout.ms": "50000"}


def test_alter_configs_replaces_all_configs() -> None:
    bench = bench_with_topic()
    alter(bench, resource(2, "t", ("retention.ms", SET, "1"), ("segment.ms", SET, "2000")))

    def replace(**configs: str | None) -> ErrorCode:
        given = [
            legacy.AlterableConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ]
        request = AlterConfigsRequest(
            resources=[legacy.AlterConfigsResource(resource_type=2, resource_name="t", configs=given)]
        )
        return ErrorCode(bench.respond(request, AlterConfigsResponse).responses[0].error_code)

    assert replace(segment_ms="2000", flush_ms="7") is ErrorCode.NONE
    assert dict(bench.image.configs.of_topic("t")) == {"segment.ms": "2000", "flush.ms": "7"}
    assert replace(flush_ms="never") is ErrorCode.INVALID_CONFIG
    assert replace(flush_ms=None) is ErrorCode.INVALID_CONFIG
    assert replace() is ErrorCode.NONE
    assert dict(bench.image.configs.of_topic("t")) == {}


@pytest.mark.parametrize("name", ["t", ""])
def test_new_min_isr_keeps_the_last_known_leader(name: str) -> None:
    bench = MachineBench.started(2)
    create_topic(bench, 1, 2)
    alter(bench, resource(TOPIC, "t", ("min.insync.replicas", 0, "2")))
    for broker_id in (1, 2):
        bench.heartbeat(broker_id, want_fence=True)
    (before,) = bench.image.topics.by_name["t"].partitions
    assert (before.leader, before.isr, set(before.elr)) == (-1, (), {1, 2})
    # Operators lower the minimum when producers cannot write any more.
    alter(bench, resource(TOPIC if name else BROKER, name, ("min.insync.replicas", 0, "1")))
    bench.heartbeat(1)
    (after,) = bench.image.topics.by_name["t"].partitions
    assert (after.leader, after.elr) == (-1, ()), (
        "with the new minimum the last leader may have accepted writes alone"
    )
    bench.heartbeat(2)
    (after,) = bench.image.topics.by_name["t"].partitions
    assert (after.leader, after.isr, after.elr, after.recovery_state) == (2, (2,), (), RECOVERING)
    assert after.last_known_elr == ()
