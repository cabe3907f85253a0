"""ListTransactions, DescribeTransactions and DescribeProducers, request by request.

``--target=kafka`` shows that Apache Kafka returns the same.
"""

from __future__ import annotations

import asyncio

from confluent_kafka import Producer

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ruslo.protocol.messages.describe_producers_response import DescribeProducersResponse
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from tests.interop.conftest import TopicMaker
from tests.support.clients.raw_client import RawClient, connected
from tests.support.txns.transactional_clients import CALL_S, new_transactional

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION


def begin(bootstrap: str, transactional_id: str, topic: str) -> Producer:
    """Write two records to each of two partitions."""
    producer = new_transactional(bootstrap, transactional_id)
    producer.begin_transaction()
    for index in (1, 0, 1, 0):
        producer.produce(topic, b"v", partition=index)
    assert producer.flush(CALL_S) == 0
    return producer


async def listed(client: RawClient, request: ListTransactionsRequest) -> tuple[int, list[str], list[str]]:
    """The error code, the unknown states, and the last character of each id."""
    response = await client.call(request, ListTransactionsResponse)
    names = sorted(each.transactional_id[-1] for each in response.transaction_states)
    return response.error_code, response.unknown_state_filters, names


def test_list_and_describe(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(2)
    opened, done, idle = (f"{group}-{character}" for character in "odi")
    producers = [begin(bootstrap, opened, topic), begin(bootstrap, done, topic)]
    producers[1].commit_transaction(CALL_S)
    producers.append(new_transactional(bootstrap, idle))

    async def scenario() -> None:
        async with asyncio.timeout(60), connected(bootstrap) as client:

            async def ids(**filters: object) -> tuple[int, list[str], list[str]]:
                requested: dict[str, object] = {"transactional_id_pattern": f"{group}-."} | filters
                return await listed(client, ListTransactionsRequest(**requested))  # type: ignore[arg-type]

            while await ids(state_filters=["CompleteCommit"]) != (0, [], ["d"]):  # noqa: ASYNC110 (has no event)
                await asyncio.sleep(0.02)
            assert await ids() == (0, [], ["d", "i", "o"])
            assert await ids(state_filters=["Ongoing", "Empty"]) == (0, [], ["i", "o"])
            code, unknown, found = await ids(
                state_filters=["ongoing", "Dead", "None", "None", "PrepareEpochFence"]
            )
            assert (code, sorted(unknown), found) == (0, ["None", "ongoing"], [])
            assert await ids(duration_filter=0) == (0, [], ["d", "i", "o"])
            assert await ids(duration_filter=3_600_000) == (0, [], ["i"]), "the transaction never began"
            assert await ids(duration_filter=-7) == (0, [], ["d", "i", "o"])
            no_pattern: tuple[int, list[str], list[str]] = (ErrorCode.INVALID_REGULAR_EXPRESSION, [], [])
            assert await ids(transactional_id_pattern="(", state_filters=["None"]) == no_pattern
            assert await ids(transactional_id_pattern="(?=a)") == no_pattern, "RE2 has no lookahead"

            requested = [opened, "no-such-id", idle, done, "", opened]
            request = DescribeTransactionsRequest(transactional_ids=requested)
            states = (await client.call(request, DescribeTransactionsResponse)).transaction_states
            assert [(each.transactional_id, each.error_code, each.transaction_state) for each in states] == [
                (opened, 0, "Ongoing"),
                ("no-such-id", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
                (idle, 0, "Empty"),
                (done, 0, "CompleteCommit"),
                ("", ErrorCode.INVALID_REQUEST, ""),
                (opened, 0, "Ongoing"),
            ]
            first, _, unused, ended, _, _ = states
            assert {each.topic: sorted(each.partitions) for each in first.topics} == {topic: [0, 1]}
            assert (first.transaction_timeout_ms, first.producer_epoch) == (60_000, 0)
            assert first.transaction_start_time_ms > 0
            assert (unused.transaction_start_time_ms, unused.topics) == (-1, [])
            assert ended.transaction_start_time_ms > 0
            assert ended.topics == []
            assert await ids(producer_id_filters=[first.producer_id, -5]) == (0, [], ["o"])

    asyncio.run(scenario())
    producers[0].abort_transaction(CALL_S)


def test_producers(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(2)
    producer = begin(bootstrap, group, topic)

    async def scenario(start_offset: int, coordinator_epoch: int) -> None:
        async with asyncio.timeout(60), connected(bootstrap) as client:
            requested = [
                (topic, [1, 0, 9, 1, -1]),
                ("no-such-topic", [0, 1]),
                ("b*d", [0]),
                ("", [0]),
                (topic, []),
            ]
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in requested]
            )
            while True:
                topics = (await client.call(request, DescribeProducersResponse)).topics
                (state,) = topics[0].partitions[0].active_producers
                if state.current_txn_start_offset == start_offset:
                    break
                await asyncio.sleep(0.02)
            assert [(each.name, [part.error_code for part in each.partitions]) for each in topics] == [
                (topic, [0, 0, UNKNOWN, 0, UNKNOWN]),
                ("no-such-topic", [UNKNOWN, UNKNOWN]),
                ("b*d", [INVALID]),
                ("", [INVALID]),
                (topic, []),
            ]
            assert [part.partition_index for part in topics[0].partitions] == [1, 0, 9, 1, -1]
            assert (state.producer_epoch, state.last_sequence) == (0, 1)
            assert state.coordinator_epoch == coordinator_epoch
            assert state.last_timestamp > 0

    asyncio.run(scenario(0, -1))
    producer.commit_transaction(CALL_S)
    asyncio.run(scenario(-1, 0))
