"""Transactions of encoded batches, which may come from several processes.

With transaction version 2 (KIP-890) partitions are added to the transaction by the produce itself, and every
transaction has its own producer epoch. Clusters that have not finalized version 2 get version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.client.errors import TransactionLost
from ruslo.client.wire.by_topic import by_topic, indexes_by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinated, Coordinators
from ruslo.client.wire.idempotent import IdempotentSender, ProducerIdAndEpoch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

_FEATURE = "transaction.version"
_INIT_PRODUCER_ID_MAX = 5
_PRODUCE_V1_MAX = 11
_ADD_PARTITIONS_V1_MAX = 3
_TXN_OFFSET_COMMIT_V1_MAX = 4
_TXN_OFFSET_COMMIT_BY_NAME_MAX = 5
"""Later versions name topics by their ids (KIP-1319), which this producer does not know."""
_END_TXN_V1_MAX = 4
_LOST_TRANSACTION = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


async def new_producer_id(cluster: Cluster) -> ProducerIdAndEpoch:
    """Allocate a producer id for idempotent sending without transactions."""

    async def attempt() -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(transactional_id=None)
        connection = await cluster.any_connection()
        response = await connection.request(
            request, InitProducerIdResponse, max_version=_INIT_PRODUCER_ID_MAX
        )
        if response.error_code:
            raise error_of(response.error_code, "no producer id was allocated")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    return await cluster.retrying(attempt)


class TransactionalProducer:
    """Call ``init`` once; then, per transaction, ``send`` and ``commit_offsets`` in any order, and ``commit``
    or ``abort``.

    ``init`` fences earlier producers with the transactional id and aborts their open transaction. After this
    transaction was fenced or timed out, every call raises TransactionLost.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int = 60_000
    ) -> None:
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._timeout_ms = transaction_timeout_ms
        self._coordinators = Coordinators(cluster, Coordinated.TRANSACTION)
        self._groups = Coordinators(cluster)
        self._identity = ProducerIdAndEpoch(-1, -1)
        self._sender: IdempotentSender | None = None
        self._added: set[TopicPartition] = set()
        self._added_groups: set[str] = set()
        self._is_v2 = False

    async def init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )

        async def query(node: int) -> KafkaError | None:
            self._is_v2 = await self._speaks_v2(node)
            response = await self._cluster.node(
                node, request, InitProducerIdResponse, max_version=_INIT_PRODUCER_ID_MAX
            )
            if response.error_code:
                return self._error(response.error_code, "cannot be initialized")
            self._begin_as(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
            return None

        await self._coordinators.one(self.transactional_id, query)

    async def send(self, batches: Mapping[TopicPartition, Iterable[bytearray]]) -> None:
        """Produce batches in the transaction; read_committed consumers see them after the commit."""
        assert self._sender is not None, "call init() first"
        if not self._is_v2:
            await self._add_partitions([p for p in batches if p not in self._added])
        try:
            await self._sender.send(batches)
        except KafkaError as error:
            raise self._ended(error) from error

    async def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Commit offsets of a group without members, if and when the transaction commits."""
        if not self._is_v2:
            await self._add_group(group_id)
        topics = by_topic(
            (
                tp,
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition, committed_offset=offset, committed_metadata=metadata
                ),
            )
            for tp, offset in offsets.items()
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            **self._identity._asdict(),
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
            ],
        )

        async def query(node: int) -> KafkaError | None:
            version = _TXN_OFFSET_COMMIT_BY_NAME_MAX if self._is_v2 else _TXN_OFFSET_COMMIT_V1_MAX
            response = await self._cluster.node(node, request, TxnOffsetCommitResponse, max_version=version)
            codes = [part.error_code for topic in response.topics for part in topic.partitions]
            failed = next((code for code in codes if code), None)
            what = f"cannot commit offsets of group {group_id!r}"
            return None if failed is None else self._error(failed, what)

        await self._groups.one(group_id, query)

    async def commit(self) -> None:
        """Commit. After an error the outcome may be unknown; a later ``init`` waits for it."""
        await self._end(committed=True)

    async def abort(self) -> None:
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            **self._identity._asdict(),
            committed=committed,
        )

        async def query(node: int) -> KafkaError | None:
            version = None if self._is_v2 else _END_TXN_V1_MAX
            response = await self._cluster.node(node, request, EndTxnResponse, max_version=version)
            if response.error_code:
                return self._error(response.error_code, "cannot be ended")
            if self._is_v2:
                self._begin_as(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
            return None

        await self._coordinators.one(self.transactional_id, query)
        self._added.clear()
        self._added_groups.clear()

    def _begin_as(self, identity: ProducerIdAndEpoch) -> None:
        """Start a producer epoch, whose sequences start at 0."""
        self._identity = identity
        self._sender = IdempotentSender(
            self._cluster,
            identity,
            transactional_id=self.transactional_id,
            max_version=None if self._is_v2 else _PRODUCE_V1_MAX,
        )

    async def _speaks_v2(self, node: int) -> bool:
        response = (await self._cluster.connection(node)).api_versions
        assert response is not None, "an open connection has negotiated"
        return any(f.name == _FEATURE and f.max_version_level >= 2 for f in response.finalized_features)

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=parts)
                for name, parts in indexes_by_topic(partitions).items()
            ],
        )

        async def query(node: int) -> KafkaError | None:
            response = await self._cluster.node(
                node, request, AddPartitionsToTxnResponse, max_version=_ADD_PARTITIONS_V1_MAX
            )
            codes = {
                part.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            } - {ErrorCode.NONE}
            # One rejected partition makes the coordinator skip the others.
            causes = codes - {ErrorCode.OPERATION_NOT_ATTEMPTED} or codes
            return self._error(min(causes), "cannot add partitions") if codes else None

        await self._coordinators.one(self.transactional_id, query)
        self._added.update(partitions)

    async def _add_group(self, group_id: str) -> None:
        if group_id in self._added_groups:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            **self._identity._asdict(),
            group_id=group_id,
        )

        async def query(node: int) -> KafkaError | None:
            response = await self._cluster.node(node, request, AddOffsetsToTxnResponse)
            what = f"cannot add offsets of group {group_id!r}"
            return self._error(response.error_code, what) if response.error_code else None

        await self._coordinators.one(self.transactional_id, query)
        self._added_groups.add(group_id)

    def _error(self, code: int, what: str) -> KafkaError:
        return self._ended(error_of(code, f"transaction {self.transactional_id!r} {what}"))

    def _ended(self, error: KafkaError) -> KafkaError:
        """Map the error codes of a transaction that this producer no longer owns to TransactionLost."""
        if error.code not in _LOST_TRANSACTION:
            return error
        return TransactionLost(
            error.code,
            f"the transaction of {self.transactional_id!r} was aborted by its coordinator: another producer "
            "with this transactional id has started, or the transaction took longer than "
            f"{self._timeout_ms} ms (transaction.timeout.ms)",
        )
