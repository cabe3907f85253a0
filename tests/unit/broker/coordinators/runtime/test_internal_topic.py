from __future__ import annotations

import asyncio
import logging

import pytest

from ruslo.broker.coordinators.runtime.internal_topic import (
    OFFSETS_PLAN,
    TRANSACTIONS_PLAN,
    InternalTopic,
    TopicPlan,
)
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from tests.support.brokers.live_node import run

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:0,CONTROLLER://:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:0",
    "log.dirs": "/nowhere",
    "offsets.topic.num.partitions": "7",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.segment.bytes": "5000000",
}


class Controller:
    """A controller with the same result for every request, sent when the test allows it."""

    def __init__(self, result: CreatableTopicResult | KafkaError) -> None:
        self.result = result
        self.requests: list[CreateTopicsRequest] = []
        self.open = asyncio.Event()

    def submit(self, request: Message) -> asyncio.Future[Message]:
        assert isinstance(request, CreateTopicsRequest)
        self.requests.append(request)
        return asyncio.ensure_future(self._respond())

    async def _respond(self) -> Message:
        await self.open.wait()
        if isinstance(self.result, KafkaError):
            raise self.result
        return CreateTopicsResponse(topics=[self.result])


def offsets_topic(controller: Controller, plan: TopicPlan = OFFSETS_PLAN) -> InternalTopic:
    config = BrokerConfig.from_properties(PROPERTIES)
    return InternalTopic(plan, lambda: config, controller)


async def test_topic_is_created_once_for_all_clients() -> None:
    controller = Controller(CreatableTopicResult(name="__consumer_offsets"))
    topic = offsets_topic(controller)
    waiting = [asyncio.create_task(topic.create()) for _ in range(3)]
    await asyncio.sleep(0)
    controller.open.set()
    await asyncio.gather(*waiting)
    (request,) = controller.requests
    (created,) = request.topics
    assert (created.name, created.num_partitions, created.replication_factor) == (
        "__consumer_offsets",
        7,
        2,
    )
    assert {each.name: each.value for each in created.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "5000000",
    }


@pytest.mark.parametrize(
    ("result", "logged"),
    [
        (
            CreatableTopicResult(
                name="__consumer_offsets",
                error_code=ErrorCode.INVALID_REPLICATION_FACTOR,
                error_message="only 1 broker",
            ),
            "lower offsets.topic.replication.factor (now 2)",
        ),
        (KafkaError(ErrorCode.NOT_CONTROLLER, "no leader"), "no leader"),
    ],
)
def test_failure_is_logged_once_and_retried(
    result: CreatableTopicResult | KafkaError, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        controller = Controller(result)
        controller.open.set()
        topic = offsets_topic(controller)
        await topic.create()
        await topic.create()
        await asyncio.sleep(0)
        assert len(controller.requests) == 2

    with caplog.at_level(logging.ERROR):
        run(scenario())
    (record,) = caplog.records
    assert logged in record.getMessage()


def test_topic_created_by_another_node_is_used(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        exists = CreatableTopicResult(name="x", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        controller = Controller(exists)
        controller.open.set()
        await offsets_topic(controller).create()

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert caplog.records == []


async def test_transaction_log_has_no_unclean_elections() -> None:
    controller = Controller(CreatableTopicResult(name="__transaction_state"))
    controller.open.set()
    await offsets_topic(controller, TRANSACTIONS_PLAN).create()
    ((created,),) = [request.topics for request in controller.requests]
    assert (created.name, created.num_partitions, created.replication_factor) == (
        "__transaction_state",
        50,
        3,
    )
    assert {each.name: each.value for each in created.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
    }
