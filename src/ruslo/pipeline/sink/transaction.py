"""Commits what tasks have staged in one transaction, which also records the id of the micro-batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.errors import TransactionLost
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.client.wire.transactional import TransactionalProducer
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.client_properties import reachable_cluster
from ruslo.pipeline.dead_letters.staging import DeadLetterStaging
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.staging.identity import BatchIdentity, JobIdentity
from ruslo.pipeline.staging.staged_rows import StagedReader, StagedRows
from ruslo.runs.dead_letters import batches_by_partition

log = logging.getLogger(__name__)

_TIMEOUT_MIN_MS = 60_000
_TIMEOUT_MAX_MS = 900_000
"""The brokers' default of transaction.max.timeout.ms."""
_BYTES_PER_MS = 1000
"""The slowest throughput that the transaction timeout allows for."""
_NO_BATCH = -1


class CheckpointBehind(RusloError):
    """The checkpoint is older than what the sink has written.

    Spark repeats its last batch only. An older batch id may hold other records now, so the user has to decide
    whether they are written.
    """

    def __init__(self, identity: BatchIdentity, written: int) -> None:
        super().__init__(
            f"cannot write batch {identity.batch_id}: batch {written} is already written. The checkpoint is "
            "older than that (for example, it was restored from a backup or lost its last files), or another "
            "driver runs the same query. Nothing was written. Start with a new checkpoint at the position "
            "that was reached; or, to write everything after this checkpoint again, run "
            f"`ruslo group delete {identity.marker_group}`"
        )


def commit_staged(
    options: SinkOptions,
    location: str,
    identity: BatchIdentity | JobIdentity,
    staged: Sequence[StagedRows],
    dead_letters: DeadLetterStaging | None = None,
) -> bool:
    """Commit rows and dead letters in one transaction. False if this batch was already written.

    Raises CheckpointBehind if a later batch was written. After any other error the transaction may or may not
    have been committed; the next call for the same batch finds out.
    """
    if dead_letters is not None and dead_letters.is_empty():
        dead_letters = None
    if dead_letters is None and not any(rows.batches for rows in staged):
        return True
    return asyncio.run(_Commit(options, location, identity, staged, dead_letters).run())


class _Commit:
    def __init__(
        self,
        options: SinkOptions,
        location: str,
        identity: BatchIdentity | JobIdentity,
        staged: Sequence[StagedRows],
        dead_letters: DeadLetterStaging | None,
    ) -> None:
        self._options = options
        self._dead_letters = dead_letters
        self._identity = identity
        self._reader = StagedReader(location, staged)
        self._size = sum(rows.size for rows in staged)

    async def run(self) -> bool:
        timeout_ms = self._options.transaction_timeout_ms or transaction_timeout_ms(self._size)
        async with reachable_cluster(self._options.client) as cluster:
            producer = TransactionalProducer(
                cluster, self._identity.transactional_id, transaction_timeout_ms=timeout_ms
            )
            # Fences older drivers of this query, and completes the transaction that they left open.
            await self._init(producer, timeout_ms)
            if await self._is_written(cluster):
                return False
            self._reader.check_complete()
            try:
                batches = self._reader.by_target()
                for target, dead_letters in (await self._dead_letter_batches(cluster)).items():
                    # Rows may go to the same partition: a query may write to its own dead-letter topic.
                    batches[target] = chain(batches.get(target, ()), dead_letters)
                await producer.send(batches)
                await self._mark(producer, batches)
            except TransactionLost:
                raise
            except Exception as error:
                await _abort(producer, error)
                raise _explained(error) from error
            finally:
                self._reader.close()
            await producer.commit()
        return True

    async def _init(self, producer: TransactionalProducer, timeout_ms: int) -> None:
        try:
            await producer.init()
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                error.add_note(
                    f"transaction.timeout.ms={timeout_ms} is more than the brokers allow: set the option "
                    "lower, or raise transaction.max.timeout.ms of the brokers"
                )
            raise

    async def _is_written(self, cluster: Cluster) -> bool:
        if not isinstance(self._identity, BatchIdentity):
            return False
        written = await last_written_batch(cluster, self._identity.marker_group)
        if written < self._identity.batch_id:
            return False
        if written > self._identity.batch_id:
            raise CheckpointBehind(self._identity, written)
        log.info("batch %d is already written", written)
        return True

    async def _dead_letter_batches(self, cluster: Cluster) -> dict[TopicPartition, Iterator[bytearray]]:
        topic = self._options.dead_letter_topic
        if self._dead_letters is None or topic is None:
            return {}
        metadata = await cluster.retrying(lambda: cluster.metadata([topic]))
        return batches_by_partition(self._dead_letters.read(), topic, len(metadata.topic(topic).partitions))

    async def _mark(self, producer: TransactionalProducer, targets: Mapping[TopicPartition, object]) -> None:
        """Commit the batch id for every topic of the batch: a deleted topic loses its committed offsets."""
        if isinstance(self._identity, BatchIdentity):
            marks = {TopicPartition(target.topic, 0): self._identity.batch_id for target in targets}
            await producer.commit_offsets(self._identity.marker_group, marks)


async def last_written_batch(cluster: Cluster, marker_group: str) -> int:
    """The highest batch that a query's sink has committed; -1 before the first."""
    offsets = GroupOffsets(cluster, Coordinators(cluster))
    committed = await offsets.fetch(marker_group, require_stable=True)
    return max((mark.offset for mark in committed.values()), default=_NO_BATCH)


def transaction_timeout_ms(size: int) -> int:
    """The timeout of a transaction of ``size`` bytes: a minute, and longer for large ones."""
    return min(max(_TIMEOUT_MIN_MS, size // _BYTES_PER_MS), _TIMEOUT_MAX_MS)


async def _abort(producer: TransactionalProducer, cause: Exception) -> None:
    """Readers would otherwise wait for the transaction to time out."""
    try:
        await producer.abort()
    except KafkaError as error:
        cause.add_note(f"the transaction could not be aborted ({error}); the next attempt aborts it first")


def _explained(error: Exception) -> Exception:
    if isinstance(error, KafkaError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
        return KafkaError(
            error.code,
            "a batch is larger than max.message.bytes of its topic: lower option kafka.batch.size, "
            f"compress, or raise the topic's limit ({error.message})",
        )
    return error
