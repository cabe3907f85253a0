"""Transactional offset commits: between the verification by the transaction coordinator and the append."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.coordinators.txns.offset_commits import TransactionalOffsetCommits
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.txn_verification import TransactionVerifier
from ruslo.broker.requests.context import RequestContext
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from ruslo.records.control import end_txn_batch
from ruslo.testing.cluster_layout import single_node_properties
from tests.support.brokers.live_node import NOW
from tests.unit.broker.partitions.bench import on_bench
from tests.unit.broker.partitions.test_txn_verification import Coordinators

PRODUCER, EPOCH = 5, 1
V1, V2 = 4, 5


class Groups:
    """A group coordinator that accepts every request."""

    def __init__(self) -> None:
        self.taken = 0

    def partition_of(self, group_id: str) -> int:
        return 0

    def is_active(self, partition: int) -> bool:
        return True

    def submit(self, group_id: str, request: Message, context: RequestContext) -> Message:
        self.taken += 1
        return TxnOffsetCommitResponse()


class Committing:
    def __init__(self, path: Path, partition: Partition) -> None:
        self.coordinators = Coordinators()
        self.groups = Groups()
        self.by_name: dict[str | Uuid, dict[int, Partition]] = {GROUP_OFFSETS_TOPIC: {0: partition}}
        config = BrokerConfig.from_properties(single_node_properties(path))
        self._commits = TransactionalOffsetCommits(
            TransactionVerifier(self.coordinators), self.groups, self, lambda: config, SystemClock()
        )

    def commit(self, version: int) -> asyncio.Future[Message]:
        request = TxnOffsetCommitRequest(
            transactional_id="aa",
            group_id="g",
            producer_id=PRODUCER,
            producer_epoch=EPOCH,
            topics=[
                TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition()]),
            ],
        )
        promise = self._commits.commit(request, RequestContext(version))
        assert isinstance(promise, asyncio.Future)
        return promise


def end_a_transaction(partition: Partition, epoch: int, version: int) -> None:
    marker = end_txn_batch(
        commit=True, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=NOW
    )
    partition.append_marker(marker, NOW, version)


def codes(response: Message) -> list[ErrorCode]:
    assert isinstance(response, TxnOffsetCommitResponse)
    return [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]


@pytest.mark.parametrize("verified", [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED])
async def test_verification_overtaken_by_a_marker_is_repeated(tmp_path: Path, verified: ErrorCode) -> None:
    """The marker may belong to the previous transaction or to this one; only the coordinator knows."""
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(GROUP_OFFSETS_TOPIC)
        committing = Committing(tmp_path, partition)
        promise = committing.commit(V2)
        end_a_transaction(partition, EPOCH if verified is ErrorCode.NONE else EPOCH + 1, 2)
        await committing.coordinators.respond(0)
        assert committing.groups.taken == 0
        assert not promise.done()
        await committing.coordinators.respond(1, verified)
        response = await promise
        if verified is ErrorCode.NONE:
            assert committing.groups.taken == 1
        else:
            assert committing.groups.taken == 0
            assert codes(response) == [ErrorCode.INVALID_PRODUCER_EPOCH]


async def test_epoch_of_version_1_outlives_its_transactions(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(GROUP_OFFSETS_TOPIC)
        committing = Committing(tmp_path, partition)
        promise = committing.commit(V1)
        end_a_transaction(partition, EPOCH, 0)
        await committing.coordinators.respond(0)
        assert codes(await promise) == [ErrorCode.INVALID_TXN_STATE]
        assert committing.groups.taken == 0
