"""Transactions through a whole node, request by request, for clients of both transaction versions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ruslo.protocol.messages.describe_producers_response import DescribeProducersResponse
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ruslo.protocol.messages.fetch_request import FetchPartition
from ruslo.protocol.messages.fetch_response import FetchResponse, PartitionData
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.records.batch import CONTROL, TRANSACTIONAL
from ruslo.records.reader import iter_batches
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, records_in, until
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import fetch_offsets, find_coordinator
from tests.support.txns.txn_requests import TODAY, TxnProducer, find_txn_coordinator, write_marker

READ_COMMITTED = 1
LATEST = -1
SMALL = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}

both_versions = pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])


@contextlib.asynccontextmanager
async def producing(
    path: Path, *, is_v2: bool = True, **properties: str
) -> AsyncIterator[tuple[LiveNode, RawClient, TxnProducer]]:
    """A node with topic ``t`` and an initialized producer."""
    settings = SMALL | {name.replace("_", "."): value for name, value in properties.items()}
    async with live_node(path, settings) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=2)
        producer = TxnProducer(node, client, is_v2=is_v2)
        assert await producer.init() is ErrorCode.NONE
        yield node, client, producer


async def committed(node: LiveNode, client: RawClient, index: int = 0) -> list[bytes | None]:
    """The values that a read_committed consumer reads; aborted batches are filtered as in clients."""
    data = await node.fetch(client, index=index, isolation_level=READ_COMMITTED)
    return without_aborted(data)


def without_aborted(data: PartitionData) -> list[bytes | None]:
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborted_producers: set[int] = set()
    values: list[bytes | None] = []
    view = memoryview(data.records or b"")
    for at, header in iter_batches(view):
        while aborted and aborted[0][0] <= header.last_offset:
            aborted_producers.add(aborted.pop(0)[1])
        if header.is_control:
            aborted_producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted_producers):
            values += [record.value for record in records_in(view[at : at + header.size])]
    return values


# -- commit and abort ----------------------------------------------------------------------------------------


@both_versions
async def test_committed_records_are_read_and_aborted_ones_are_not(tmp_path: Path, is_v2: bool) -> None:
    async with producing(tmp_path, is_v2=is_v2) as (node, client, producer):
        first_epoch = producer.epoch
        for values, commit in (((b"a", b"b"), True), ((b"c",), False), ((b"d",), True)):
            await producer.send(*values)
            await producer.send(*values, index=1)
            assert await producer.end(commit=commit) is ErrorCode.NONE
        for index in (0, 1):
            assert await committed(node, client, index) == [b"a", b"b", b"d"]
            assert node.partition(index=index).log.last_stable_offset == 7
        assert producer.epoch == first_epoch + (3 if is_v2 else 0)


async def test_an_open_transaction_delays_read_committed_consumers(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        await node.produce(client, batch_of(b"plain", timestamp=TODAY))
        await producer.send(b"a")
        await node.produce(client, batch_of(b"behind", timestamp=TODAY))

        async def latest(isolation: int) -> int:
            partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
            topic = ListOffsetsTopic(name="t", partitions=[partition])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
            response = await client.call(request, ListOffsetsResponse, 8)
            return response.topics[0].partitions[0].offset

        assert await committed(node, client) == [b"plain"]
        assert (await latest(0), await latest(READ_COMMITTED)) == (3, 1)
        assert await producer.end(commit=True) is ErrorCode.NONE
        assert await committed(node, client) == [b"plain", b"a", b"behind"]
        assert (await latest(0), await latest(READ_COMMITTED)) == (4, 4)


async def test_a_marker_completes_read_committed_fetches(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, _client, producer), connected(node.bootstrap) as reader:
        await producer.send(*[b"x" * 100] * 20)
        requested = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        # This exceeds the size of the marker: the records that it makes readable count, too.
        request = node.fetch_request(
            [("t", requested)], max_wait_ms=60_000, min_bytes=1000, isolation_level=READ_COMMITTED
        )
        reader.send(request, 12)
        await until(lambda: bool(node.partition().delayed_fetches))
        assert await producer.end(commit=True) is ErrorCode.NONE
        response = await reader.receive(FetchResponse)
        assert len(without_aborted(response.responses[0].partitions[0])) == 20


async def test_a_version_1_client_continues_at_once_after_its_commit(tmp_path: Path) -> None:
    async with producing(tmp_path, is_v2=False) as (_, _, producer):
        for number in range(20):
            # No CONCURRENT_TRANSACTIONS: the transaction is complete before the response is sent.
            await producer.send(b"%d" % number)
            assert await producer.end(commit=True) is ErrorCode.NONE


async def test_markers_of_a_wide_transaction_are_written_in_slices(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        await node.create("wide", partitions=200)
        for index in range(200):
            client.send(
                node.produce_request(
                    {("wide", index): producer.batch(b"a", topic="wide", index=index)},
                    transactional_id=producer.transactional_id,
                ),
                12,
            )
        for _ in range(200):
            response = await client.receive(ProduceResponse)
            assert response.responses[0].partition_responses[0].error_code == 0
        assert await producer.end(commit=True) is ErrorCode.NONE
        await until(
            lambda: all(node.partition("wide", index).log.last_stable_offset == 2 for index in range(200))
        )


# -- verification --------------------------------------------------------------------------------------------


async def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        for version in (3, 9, 13):
            response = await node.produce(client, producer.batch(b"a"), version=version)
            assert ErrorCode(response.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version
        assert node.partition().log.end_offset == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
async def test_a_version_1_client_must_have_added_the_partition(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    async with producing(tmp_path, is_v2=False) as (node, _, producer):
        assert await producer.write(b"a", version=version) is code
        assert node.partition().log.end_offset == 0
        assert await producer.add() is ErrorCode.NONE
        producer.sequences.clear()
        assert await producer.write(b"a", version=version) is ErrorCode.NONE


async def test_without_verification_a_version_1_client_may_write_anywhere(tmp_path: Path) -> None:
    disabled = {"transaction_partition_verification_enable": "false"}
    async with producing(tmp_path, is_v2=False, **disabled) as (node, _, producer):
        assert await producer.write(b"a") is ErrorCode.NONE
        assert node.partition().log.producers.has_open_transaction(producer.producer_id, 0)


async def test_unknown_and_fenced_producers_fail(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        unknown = TxnProducer(node, client, "never initialised", producer_id=77, epoch=0)
        assert await unknown.write(b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        other = TxnProducer(node, client, producer_id=77, epoch=0)
        assert await other.write(b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        successor = TxnProducer(node, client)
        assert await successor.init() is ErrorCode.NONE
        assert (successor.producer_id, successor.epoch) == (producer.producer_id, producer.epoch + 1)
        for version in (10, 11, 12, 13):
            producer.sequences.clear()
            assert await producer.write(b"a", version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.add() is ErrorCode.PRODUCER_FENCED
        assert await producer.add(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end(commit=True) is ErrorCode.PRODUCER_FENCED
        assert await producer.commit_offsets("g", {0: 1}) == [ErrorCode.NOT_COORDINATOR]
        await find_coordinator(client, "g")
        assert await producer.commit_offsets("g", {0: 1}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert node.partition().log.end_offset == 0
        await successor.send(b"mine")


@both_versions
async def test_a_batch_after_the_end_of_its_transaction_fails(tmp_path: Path, is_v2: bool) -> None:
    """KAFKA-14402: no marker would ever follow it, and read_committed consumers would wait forever."""
    async with producing(tmp_path, is_v2=is_v2) as (node, client, producer):
        await producer.send(b"a")
        late = producer.batch(b"late")
        assert await producer.end(commit=True) is ErrorCode.NONE
        response = await node.produce(
            client, late, version=13 if is_v2 else 10, transactional_id=producer.transactional_id
        )
        expected = ErrorCode.INVALID_PRODUCER_EPOCH if is_v2 else ErrorCode.INVALID_TXN_STATE
        assert ErrorCode(response.error_code) is expected
        log = node.partition().log
        assert (log.end_offset, log.last_stable_offset) == (2, 2)


async def test_a_request_has_one_producer(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        other = TxnProducer(node, client, "other")
        assert await other.init() is ErrorCode.NONE
        request = node.produce_request(
            {("t", 0): producer.batch(b"a"), ("t", 1): other.batch(b"b", index=1)},
            transactional_id=producer.transactional_id,
        )
        response = await client.call(request, ProduceResponse, 12)
        codes = [each.partition_responses[0].error_code for each in response.responses]
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


async def test_plain_batches_in_a_transactional_request(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        response = await node.produce(
            client, batch_of(b"plain", timestamp=TODAY), transactional_id="tx", version=12
        )
        assert (response.error_code, response.base_offset) == (0, 0)
        await producer.send(b"a")
        inside = batch_of(
            b"b", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=1
        )
        rejected = await node.produce(client, inside, transactional_id="tx", version=12)
        assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_TXN_STATE


async def test_a_request_for_several_partitions_has_a_result_for_each(tmp_path: Path) -> None:
    async with producing(tmp_path) as (_node, client, producer):
        request = ProduceRequest(
            transactional_id=producer.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=0, records=producer.batch(b"a")),
                        PartitionProduceData(index=9, records=producer.batch(b"a", index=9)),
                        PartitionProduceData(index=1, records=b"no batch"),
                    ],
                )
            ],
        )
        response = await client.call(request, ProduceResponse, 12)
        found = {each.index: each.error_code for each in response.responses[0].partition_responses}
        assert found[0] == ErrorCode.NONE
        assert found[9] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found[1] not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_acks_0(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):

        def send_without_acks(producer: TxnProducer) -> ProduceRequest:
            batch = producer.batch(b"a")
            return node.produce_request({("t", 0): batch}, acks=0, transactional_id="tx")

        client.send(send_without_acks(producer), 12)
        client.expect_no_responses()
        await until(lambda: node.partition().log.end_offset == 1)
        assert await producer.end(commit=True) is ErrorCode.NONE
        zombie = TxnProducer(node, client, producer_id=producer.producer_id, epoch=0)
        client.send(send_without_acks(zombie), 12)
        assert await client.read_to_the_end() == b""


# -- offsets -------------------------------------------------------------------------------------------------


async def stable_offset(client: RawClient, group_id: str) -> tuple[int, ErrorCode]:
    """Fetch the offset as a consumer that requires stable offsets."""
    requested = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[requested], require_stable=True)
    response = await client.call(request, OffsetFetchResponse, 9)
    (found,) = response.groups[0].topics[0].partitions
    return found.committed_offset, ErrorCode(found.error_code)


@both_versions
async def test_offsets_are_committed_with_their_transaction(tmp_path: Path, is_v2: bool) -> None:
    async with producing(tmp_path, is_v2=is_v2) as (_, client, producer):
        await find_coordinator(client, "g")
        for offset, commit, then in ((5, True, 5), (9, False, 5), (7, True, 7)):
            if not is_v2:
                assert await producer.add_offsets("g") is ErrorCode.NONE
            assert await producer.commit_offsets("g", {0: offset}) == [ErrorCode.NONE]
            assert await stable_offset(client, "g") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            assert await producer.end(commit=commit) is ErrorCode.NONE
            assert await stable_offset(client, "g") == (then, ErrorCode.NONE)
            assert await fetch_offsets(client, "g") == {0: then}


async def test_offsets_of_topics_by_id(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        await find_coordinator(client, "g")
        topic_id = node.topic_id("t")
        missing, none = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE
        assert await producer.commit_offsets("g", {0: 1}, 6, random_uuid()) == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert await producer.commit_offsets("g", {0: 1}, 6) == [ErrorCode.UNKNOWN_TOPIC_ID], "names are gone"
        assert sorted(await producer.commit_offsets("g", {0: 5, 9: 5}, 6, topic_id)) == [none, missing]
        assert await producer.end(commit=True) is none
        assert await stable_offset(client, "g") == (5, none)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_offsets_of_a_version_1_client_must_have_been_added(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    async with producing(tmp_path, is_v2=False) as (node, _client, producer):
        # No group exists yet: the first request creates the topic.
        assert await producer.add_offsets("other") is ErrorCode.NONE
        groups = node.node.broker.groups
        index = groups.partition_of("other")
        group = next(name for name in map(str, range(99)) if groups.partition_of(name) != index)
        assert await producer.commit_offsets(group, {0: 1}, version) == [code]
        assert await producer.add_offsets(group) is ErrorCode.NONE
        assert await producer.commit_offsets(group, {0: 1}, version) == [ErrorCode.NONE]


# -- markers -------------------------------------------------------------------------------------------------


async def test_markers_are_fenced(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        pid, epoch = producer.producer_id, producer.epoch
        await producer.send(b"a")
        log = node.partition().log

        async def marker(
            marker_epoch: int, transaction_version: int = 0, coordinator_epoch: int = 0
        ) -> ErrorCode:
            return await write_marker(
                client,
                pid,
                marker_epoch,
                transaction_version=transaction_version,
                coordinator_epoch=coordinator_epoch,
            )

        assert await marker(epoch, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await marker(epoch - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert log.end_offset == 1
        assert await marker(epoch + 1, 2, coordinator_epoch=3) is ErrorCode.NONE
        assert log.last_stable_offset == log.end_offset == 2
        # A coordinator that missed the response retries: the marker is written again.
        assert await marker(epoch + 1, 2, coordinator_epoch=3) is ErrorCode.NONE
        assert log.last_stable_offset == log.end_offset == 3
        late = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await marker(epoch + 1, 2, coordinator_epoch=2) is late
        unknown = await write_marker(client, pid, epoch + 1, topic="nowhere")
        assert unknown is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await write_marker(client, pid, epoch + 2, coordinator_epoch=3, version=1) is ErrorCode.NONE


async def test_an_administrator_aborts_a_hanging_transaction(tmp_path: Path) -> None:
    """The request of ``kafka-transactions abort``: same epoch, transaction version 0."""
    async with producing(tmp_path) as (node, client, producer):
        await producer.send(b"a")
        request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        (topic,) = (await client.call(request, DescribeProducersResponse)).topics
        (hanging,) = topic.partitions[0].active_producers
        assert (hanging.producer_id, hanging.current_txn_start_offset) == (producer.producer_id, 0)
        assert await write_marker(client, hanging.producer_id, hanging.producer_epoch) is ErrorCode.NONE
        assert node.partition().log.last_stable_offset == 2
        assert await committed(node, client) == []


# -- timeouts and faults -------------------------------------------------------------------------------------


async def test_a_transaction_that_times_out_is_aborted(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        assert await producer.init(timeout_ms=100) is ErrorCode.NONE
        await producer.send(b"a")
        log = node.partition().log
        await until(lambda: log.last_stable_offset == 2)
        assert await producer.write(b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end(commit=True) is ErrorCode.INVALID_TXN_STATE
        epoch = producer.epoch
        assert await producer.end(commit=False) is ErrorCode.NONE
        assert producer.epoch == epoch + 1
        assert await committed(node, client) == []
        await producer.send(b"c")


async def test_a_new_producer_ends_the_transaction_of_the_old_one(tmp_path: Path) -> None:
    async with producing(tmp_path, is_v2=False) as (node, client, producer):
        await producer.send(b"lost")
        successor = TxnProducer(node, client, is_v2=False, producer_id=producer.producer_id)
        assert await successor.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await successor.init() is ErrorCode.NONE
        assert successor.epoch == producer.epoch + 2
        assert await producer.end(commit=True) is ErrorCode.PRODUCER_FENCED
        await successor.send(b"kept")
        assert await successor.end(commit=True) is ErrorCode.NONE
        assert await committed(node, client) == [b"kept"]


@both_versions
async def test_a_restart_in_the_middle_of_a_transaction(tmp_path: Path, is_v2: bool) -> None:
    async with producing(tmp_path, is_v2=is_v2) as (node, client, producer):
        await find_coordinator(client, "g")
        await producer.send(b"a")
        if not is_v2:
            await producer.add_offsets("g")
        assert await producer.commit_offsets("g", {0: 5}) == [ErrorCode.NONE]
    async with live_node(tmp_path, SMALL) as node, connected(node.bootstrap) as client:
        await until(lambda: all(node.node.broker.transactions.is_active(index) for index in range(2)))
        await until(lambda: all(node.node.broker.groups.is_active(index) for index in range(2)))
        producer.node, producer.client = node, client
        assert node.partition().log.last_stable_offset == 0
        assert await stable_offset(client, "g") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await producer.send(b"b")
        assert await producer.end(commit=True) is ErrorCode.NONE
        assert await committed(node, client) == [b"a", b"b"]
        assert await fetch_offsets(client, "g") == {0: 5}


async def test_a_deleted_topic_does_not_delay_the_end_of_a_transaction(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, _, producer):
        await node.create("gone")
        await producer.send(b"a")
        await producer.send(b"a", topic="gone")
        await node.delete("gone")
        assert await producer.end(commit=True) is ErrorCode.NONE
        await producer.send(b"next")


# -- administration ------------------------------------------------------------------------------------------


async def test_lists_and_descriptions(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        await producer.send(b"a", index=1)
        idle = TxnProducer(node, client, "idle")
        assert await idle.init() is ErrorCode.NONE

        async def listed(**filters: object) -> dict[str, str]:
            request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
            response = await client.call(request, ListTransactionsResponse)
            assert response.error_code == 0
            return {each.transactional_id: each.transaction_state for each in response.transaction_states}

        assert await listed() == {"tx": "Ongoing", "idle": "Empty"}
        assert await listed(state_filters=["Ongoing"]) == {"tx": "Ongoing"}
        assert await listed(producer_id_filters=[idle.producer_id]) == {"idle": "Empty"}
        assert await listed(transactional_id_pattern="i.*") == {"idle": "Empty"}
        request = ListTransactionsRequest(state_filters=["Nonsense", "Empty", "Nonsense"])
        response = await client.call(request, ListTransactionsResponse)
        assert response.unknown_state_filters == ["Nonsense"]
        assert [each.transactional_id for each in response.transaction_states] == ["idle"]
        request = ListTransactionsRequest(transactional_id_pattern="(")
        response = await client.call(request, ListTransactionsResponse)
        assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

        ids = ["unknown", "tx", "", "idle", "tx"]
        requested = DescribeTransactionsRequest(transactional_ids=ids)
        described = (await client.call(requested, DescribeTransactionsResponse)).transaction_states
        assert [(each.transactional_id, each.error_code) for each in described] == [
            ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("tx", ErrorCode.NONE),
            ("", ErrorCode.INVALID_REQUEST),
            ("idle", ErrorCode.NONE),
            ("tx", ErrorCode.NONE),
        ]
        open_one = described[1]
        assert (open_one.transaction_state, open_one.producer_id) == ("Ongoing", producer.producer_id)
        assert [(each.topic, each.partitions) for each in open_one.topics] == [("t", [1])]


async def test_producers_of_partitions(tmp_path: Path) -> None:
    async with producing(tmp_path) as (_, client, producer):
        await producer.send(b"a", b"b", index=1)
        requested = [("t", [1, 0, 9]), ("none", [0]), ("b*d", [0]), ("", [0])]
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in requested]
        )
        topics = (await client.call(request, DescribeProducersResponse)).topics
        codes = {topic.name: [each.error_code for each in topic.partitions] for topic in topics}
        unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
        assert codes == {"t": [0, 0, unknown], "none": [unknown], "b*d": [invalid], "": [invalid]}
        (active,) = topics[0].partitions[0].active_producers
        assert topics[0].partitions[1].active_producers == []
        assert (active.producer_id, active.producer_epoch) == (producer.producer_id, producer.epoch)
        assert (active.last_sequence, active.last_timestamp) == (1, TODAY + 1)
        assert (active.coordinator_epoch, active.current_txn_start_offset) == (-1, 0)
        assert await producer.end(commit=True) is ErrorCode.NONE
        topics = (await client.call(request, DescribeProducersResponse)).topics
        (active,) = topics[0].partitions[0].active_producers
        # A version 2 client has a new epoch and has not written in it.
        assert (active.producer_epoch, active.last_sequence) == (producer.epoch, -1)
        assert (active.coordinator_epoch, active.current_txn_start_offset) == (0, -1)


@pytest.mark.parametrize("version", range(6))
async def test_producer_ids(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path, SMALL) as node, connected(node.bootstrap) as client:

        async def init(transactional_id: str | None, timeout_ms: int = 1000) -> InitProducerIdResponse:
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            return await client.call(request, InitProducerIdResponse, version)

        plain = [await init(None) for _ in range(3)]
        assert [(each.producer_id, each.producer_epoch) for each in plain] == [(0, 0), (1, 0), (2, 0)]
        for transactional_id, timeout_ms, code in (
            ("", 1000, ErrorCode.INVALID_REQUEST),
            ("x", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            ("x", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            ("x", 1000, ErrorCode.NOT_COORDINATOR),
        ):
            response = await init(transactional_id, timeout_ms)
            assert (ErrorCode(response.error_code), response.producer_id) == (code, -1)
        assert (await find_txn_coordinator(client, "x")).node_id == node.node.config.node_id
        responses = [await init("x") for _ in range(2)]
        assert [(each.producer_id, each.producer_epoch) for each in responses] == [(3, 0), (3, 1)]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_a_client_waits_until_the_controller_allocates_producer_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    async def fail_allocation(_: ProducerIds) -> int:
        raise KafkaError(code, "no ids")

    async with live_node(tmp_path, SMALL) as node, connected(node.bootstrap) as client:
        monkeypatch.setattr(ProducerIds, "generate", fail_allocation)
        request = InitProducerIdRequest(transactional_id=None)
        response = await client.call(request, InitProducerIdResponse, 5)
        assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)


async def test_the_format_of_a_control_batch(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, client, producer):
        epoch = producer.epoch
        await producer.send(b"a")
        assert await producer.end(commit=True) is ErrorCode.NONE
        data = await node.fetch(client)
        *_, (_, marker) = iter_batches(memoryview(data.records or b""))
        assert marker.attributes == TRANSACTIONAL | CONTROL
        assert (marker.size, marker.producer_epoch, marker.base_sequence) == (78, epoch + 1, -1)
