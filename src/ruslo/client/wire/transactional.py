"""Transactions of ready-made batches: what many have prepared becomes visible at once, or not at all.

Transactions of version 2 (KIP-890) need no word to the coordinator before data is written, and each one has
an epoch of its own; to clusters that have not finalized it, version 1 is spoken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from ruslo.client.errors import TransactionLost
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinated, Coordinators, value_of
from ruslo.client.wire.sequenced import ProducerIdentity, SequencedSender
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

_Ask: TypeAlias = Callable[[int], Awaitable[KafkaError | None]]
"""Asks a node; answers with what went wrong."""

_FEATURE = "transaction.version"
_INIT_MAX = 5
_PRODUCE_V1_MAX = 11
_ADD_PARTITIONS_V1_MAX = 3
_TXN_OFFSET_COMMIT_V1_MAX = 4
_END_TXN_V1_MAX = 4
_ENDED_BY_OTHERS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


async def new_producer_id(cluster: Cluster) -> ProducerIdentity:
    """An identity for idempotent sending without transactions."""

    async def attempt() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None)
        connection = await cluster.any_connection()
        response = await connection.request(request, InitProducerIdResponse, max_version=_INIT_MAX)
        if response.error_code:
            raise error_of(response.error_code, "no producer id")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return await cluster.retrying(attempt)


class TransactionalProducer:
    """``init``, then again and again: ``send`` and ``commit_offsets`` in any order, ``commit`` or ``abort``.

    ``init`` fences whoever used the transactional id before, and ends what they left open. A transaction that
    was ended by others (fenced, or out of time) raises TransactionLost from then on.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int = 60_000
    ) -> None:
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._timeout_ms = transaction_timeout_ms
        self._coordinators = Coordinators(cluster, Coordinated.TRANSACTION)
        self._groups = Coordinators(cluster)
        self._identity = ProducerIdentity(-1, -1)
        self._sender: SequencedSender | None = None
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

        async def ask(node: int) -> KafkaError | None:
            self._is_v2 = await self._speaks_v2(node)
            response = await self._cluster.node(node, request, InitProducerIdResponse, max_version=_INIT_MAX)
            if response.error_code:
                return self._error(response.error_code, "cannot be initialised")
            self._begin_as(ProducerIdentity(response.producer_id, response.producer_epoch))
            return None

        await self._ask_coordinator(ask)

    async def send(self, batches: Mapping[TopicPartition, Iterable[bytearray]]) -> None:
        """Store batches within the transaction; they are visible to read_committed readers after commit."""
        assert self._sender is not None, "init() comes first"
        if not self._is_v2:
            await self._add_partitions([p for p in batches if p not in self._added])
        try:
            await self._sender.send(batches)
        except KafkaError as error:
            raise self._ended(error) from error

    async def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Commit offsets of a group that has no members, when and if the transaction is committed."""
        if not self._is_v2:
            await self._add_group(group_id)
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()
            ],
        )

        async def ask(node: int, owned: list[str]) -> dict[str, KafkaError | None]:
            version = None if self._is_v2 else _TXN_OFFSET_COMMIT_V1_MAX
            response = await self._cluster.node(node, request, TxnOffsetCommitResponse, max_version=version)
            codes = [part.error_code for topic in response.topics for part in topic.partitions]
            failed = next((code for code in codes if code), None)
            what = f"cannot commit offsets of group {group_id!r}"
            return {group_id: None if failed is None else self._error(failed, what)}

        value_of((await self._groups.each([group_id], ask))[group_id])

    async def commit(self) -> None:
        """Make the transaction visible. When this raises, its outcome may be unknown: a later ``init`` of the
        same id waits until it is decided."""
        await self._end(committed=True)

    async def abort(self) -> None:
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=committed,
        )

        async def ask(node: int) -> KafkaError | None:
            version = None if self._is_v2 else _END_TXN_V1_MAX
            response = await self._cluster.node(node, request, EndTxnResponse, max_version=version)
            if response.error_code:
                return self._error(response.error_code, "cannot be ended")
            if self._is_v2:
                self._begin_as(ProducerIdentity(response.producer_id, response.producer_epoch))
            return None

        await self._ask_coordinator(ask)
        self._added.clear()
        self._added_groups.clear()

    def _begin_as(self, identity: ProducerIdentity) -> None:
        """A new epoch counts its sequences from 0."""
        self._identity = identity
        self._sender = SequencedSender(
            self._cluster,
            identity,
            transactional_id=self.transactional_id,
            max_version=None if self._is_v2 else _PRODUCE_V1_MAX,
        )

    async def _speaks_v2(self, node: int) -> bool:
        answer = (await self._cluster.connection(node)).api_versions
        assert answer is not None, "an open connection has negotiated"
        return any(f.name == _FEATURE and f.max_version_level >= 2 for f in answer.finalized_features)

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=parts) for name, parts in by_topic.items()
            ],
        )

        async def ask(node: int) -> KafkaError | None:
            response = await self._cluster.node(
                node, request, AddPartitionsToTxnResponse, max_version=_ADD_PARTITIONS_V1_MAX
            )
            codes = {
                part.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            } - {ErrorCode.NONE}
            # One partition that is refused keeps the others from being tried.
            telling = codes - {ErrorCode.OPERATION_NOT_ATTEMPTED} or codes
            return self._error(min(telling), "cannot take partitions in") if codes else None

        await self._ask_coordinator(ask)
        self._added.update(partitions)

    async def _add_group(self, group_id: str) -> None:
        if group_id in self._added_groups:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group_id,
        )

        async def ask(node: int) -> KafkaError | None:
            response = await self._cluster.node(node, request, AddOffsetsToTxnResponse)
            what = f"cannot take in offsets of group {group_id!r}"
            return self._error(response.error_code, what) if response.error_code else None

        await self._ask_coordinator(ask)
        self._added_groups.add(group_id)

    async def _ask_coordinator(self, ask: _Ask) -> None:
        async def each(node: int, owned: list[str]) -> dict[str, KafkaError | None]:
            return {self.transactional_id: await ask(node)}

        answers = await self._coordinators.each([self.transactional_id], each)
        value_of(answers[self.transactional_id])

    def _error(self, code: int, what: str) -> KafkaError:
        return self._ended(error_of(code, f"transaction {self.transactional_id!r} {what}"))

    def _ended(self, error: KafkaError) -> KafkaError:
        """Kafka has many words for a transaction that is no longer ours; callers need one."""
        if error.code not in _ENDED_BY_OTHERS:
            return error
        return TransactionLost(
            error.code,
            f"the transaction of {self.transactional_id!r} was ended by somebody else: another producer with "
            f"this transactional id has started, or it took longer than {self._timeout_ms} ms "
            "(transaction.timeout.ms)",
        )
