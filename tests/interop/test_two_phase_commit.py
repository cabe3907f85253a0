"""Two-phase commit (KIP-939), request by request: Ruslo and Apache Kafka do the same."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.client.admin.admin import Admin
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TRANSACTION_STATE_TOPIC
from ruslo.protocol.apis import API_BY_NAME
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.raw_client import RawClient, connected
from tests.support.tools.java_tools import tool_output

pytestmark = pytest.mark.usefixtures("needs_java")

SYSTEMS = pytest.mark.parametrize("system", [RusloNode, ApacheKafka])
ENABLED = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
VERSION = 6
NO_TIMEOUT_MS = 2**31 - 1


async def init(
    client: RawClient,
    transactional_id: str | None,
    *,
    two_phase: bool = True,
    keep: bool = False,
    timeout_ms: int = 1,
    producer: tuple[int, int] = (-1, -1),
) -> InitProducerIdResponse:
    """The response, once no transition of the transactional id is in progress."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        enable2_pc=two_phase,
        keep_prepared_txn=keep,
    )
    while True:
        response = await client.call(request, InitProducerIdResponse, VERSION)
        if response.error_code not in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            return response
        await asyncio.sleep(0.05)


async def begin(client: RawClient, transactional_id: str, producer: InitProducerIdResponse) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    response = await client.call(request, AddPartitionsToTxnResponse, 3)
    assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


async def describe(client: RawClient, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return (await client.call(request, DescribeTransactionsResponse)).transaction_states[0]


async def wait_for_state(client: RawClient, transactional_id: str, state: str) -> None:
    while True:
        if (await describe(client, transactional_id)).transaction_state == state:
            return
        await asyncio.sleep(0.05)


async def highest_version(client: RawClient) -> int:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await client.call(request, ApiVersionsResponse, 4)
    key = API_BY_NAME["InitProducerId"].key
    return next(each.max_version for each in response.api_keys if each.api_key == key)


def start(system: type[Node], directory: Path, **properties: str) -> Node:
    """A node with a topic and a coordinator."""
    node = system(directory, properties={**TIMEOUTS, **properties}).start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=30)
    Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "first"}).init_transactions(60)
    return node


@SYSTEMS
def test_transactions_without_a_timeout(tmp_path: Path, system: type[Node]) -> None:
    node = start(system, tmp_path, **ENABLED)
    try:
        asyncio.run(_without_timeout(node))
        assert _timeouts_in_log(node)["two-phase"] == [NO_TIMEOUT_MS] * 4 + [5000]
    finally:
        node.kill()


async def _without_timeout(node: Node) -> None:
    async with connected(node.bootstrap) as client:
        assert await highest_version(client) == VERSION
        first = await init(client, "two-phase")
        assert (first.error_code, first.producer_epoch) == (0, 0)
        assert (first.ongoing_txn_producer_id, first.ongoing_txn_producer_epoch) == (-1, -1)
        await begin(client, "two-phase", first)
        # The other transaction starts later with a longer timeout, and is aborted.
        await begin(client, "plain", await init(client, "plain", two_phase=False))
        await wait_for_state(client, "plain", "CompleteAbort")
        described = await describe(client, "two-phase")
        assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", NO_TIMEOUT_MS)
        # It cannot be kept, and a producer that does not ask for that aborts it.
        kept = await init(client, "two-phase", keep=True)
        assert ErrorCode(kept.error_code) is ErrorCode.UNSUPPORTED_VERSION
        assert (kept.producer_id, kept.producer_epoch, kept.ongoing_txn_producer_id) == (-1, -1, -1)
        assert (await describe(client, "two-phase")).transaction_state == "Ongoing"
        second = await init(client, "two-phase", two_phase=False, timeout_ms=5000)
        assert (second.error_code, second.producer_id) == (0, first.producer_id)
        assert (await describe(client, "two-phase")).transaction_timeout_ms == 5000
        # The order of the checks.
        for transactional_id, keep, producer, code in (
            (None, True, (-1, -1), ErrorCode.NONE),
            ("", True, (-1, -1), ErrorCode.INVALID_REQUEST),
            ("two-phase", True, (5, -1), ErrorCode.INVALID_REQUEST),
        ):
            response = await init(client, transactional_id, keep=keep, producer=producer)
            assert ErrorCode(response.error_code) is code
        plain = await init(client, "two-phase", two_phase=False, timeout_ms=0)
        assert ErrorCode(plain.error_code) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@SYSTEMS
def test_two_phase_commit_that_the_broker_does_not_allow(tmp_path: Path, system: type[Node]) -> None:
    node = start(system, tmp_path, **{"unstable.api.versions.enable": "true"})

    async def refused() -> None:
        async with connected(node.bootstrap) as client:
            for keep in (False, True):
                response = await init(client, "t", keep=keep)
                assert ErrorCode(response.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            response = await init(client, "t", two_phase=False, keep=True)
            assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION
            assert (await init(client, "t", two_phase=False)).error_code == 0

    try:
        asyncio.run(refused())
    finally:
        node.kill()


@SYSTEMS
def test_two_phase_commit_needs_its_own_permission(tmp_path: Path, system: type[Node]) -> None:
    node = start(system, tmp_path, **ENABLED, **AUTHORIZER)

    async def check_permissions() -> None:
        async with Admin(node.bootstrap) as admin:
            allowed = {"writes": (Operation.WRITE,), "both": (Operation.WRITE, Operation.TWO_PHASE_COMMIT)}
            await admin.acls.create(
                [
                    Acl(
                        ResourceType.TRANSACTIONAL_ID,
                        name,
                        PatternType.LITERAL,
                        "User:ANONYMOUS",
                        "*",
                        operation,
                        Permission.ALLOW,
                    )
                    for name, operations in allowed.items()
                    for operation in operations
                ]
            )
        async with connected(node.bootstrap) as client:
            while True:
                # Apache Kafka responds before its broker knows the new rules.
                denied = await init(client, "writes")
                if denied.error_code:
                    break
                await asyncio.sleep(0.05)
            assert ErrorCode(denied.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert (await init(client, "writes", two_phase=False, timeout_ms=1000)).error_code == 0
            assert (await init(client, "both")).error_code == 0

    try:
        asyncio.run(check_permissions())
    finally:
        node.kill()


@SYSTEMS
def test_the_version_is_not_stable(tmp_path: Path, system: type[Node]) -> None:
    node = start(system, tmp_path, **{"transaction.two.phase.commit.enable": "true"})

    async def refused() -> None:
        async with connected(node.bootstrap) as client:
            assert await highest_version(client) == VERSION - 1
            client.send(InitProducerIdRequest(transactional_id="t", enable2_pc=True), VERSION)
            assert await client.read_to_the_end() == b"", "the connection is closed"

    try:
        asyncio.run(refused())
    finally:
        node.kill()


def _timeouts_in_log(node: Node) -> dict[str, list[int]]:
    """The timeouts in the records of each transactional id."""
    found: dict[str, list[int]] = {}
    for log in sorted(node.directory.glob(f"**/{TRANSACTION_STATE_TOPIC}-*/*.log")):
        text = tool_output(
            "org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--transaction-log-decoder"
        )
        for name, timeout in re.findall(r'"transactionalId":"([^"]+)".*"transactionTimeoutMs":(\d+)', text):
            found.setdefault(name, []).append(int(timeout))
    return found
