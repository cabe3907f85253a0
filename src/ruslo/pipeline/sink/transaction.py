"""Commits what tasks have staged: one transaction, which also says which batch it was."""

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
from ruslo.pipeline.sink.identity import BatchIdentity, JobIdentity
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.patience import reached_cluster
from ruslo.pipeline.sink.staging import StagedReader, StagedRows
from ruslo.pipeline.staged_letters import LetterBox

log = logging.getLogger(__name__)

_TIMEOUT_MIN_MS = 60_000
_TIMEOUT_MAX_MS = 900_000
"""The most that brokers allow unless their transaction.max.timeout.ms is changed."""
_BYTES_PER_MS = 1000
"""A slow way to the brokers; a transaction that takes longer than this makes necessary is not waited for."""
_NO_BATCH = -1


class CheckpointBehind(RusloError):
    """Spark repeats the last batch, never one before it: under an older number there may be other records
    now, so that neither leaving them out nor writing them is right without being asked."""

    def __init__(self, identity: BatchIdentity, written: int) -> None:
        super().__init__(
            f"batch {identity.batch_id} was to be written, but batch {written} is written already: the "
            "checkpoint is older than that (restored from a copy, say, or its last files got lost), or "
            "another driver runs the same query. Nothing was written. Begin with a new checkpoint where the "
            "last one was; or go on with this one, and have everything behind it written again, after "
            f"`ruslo group delete {identity.marker_group}`"
        )


def commit_staged(
    options: SinkOptions,
    location: str,
    identity: BatchIdentity | JobIdentity,
    staged: Sequence[StagedRows],
    letters: LetterBox | None = None,
) -> bool:
    """Write all of it and the dead letters, visible at once. False if this very batch was written before.

    Raises CheckpointBehind if a later one was. When it raises anything else, the transaction may or may not
    have been committed; called again for the same batch it finds that out by itself.
    """
    if letters is not None and not letters.is_used():
        letters = None
    if letters is None and not any(rows.batches for rows in staged):
        return True
    return asyncio.run(_Commit(options, location, identity, staged, letters).run())


class _Commit:
    def __init__(
        self,
        options: SinkOptions,
        location: str,
        identity: BatchIdentity | JobIdentity,
        staged: Sequence[StagedRows],
        letters: LetterBox | None,
    ) -> None:
        self._options = options
        self._letters = letters
        self._identity = identity
        self._reader = StagedReader(location, staged)
        self._size = sum(rows.size for rows in staged)

    async def run(self) -> bool:
        timeout_ms = self._options.transaction_timeout_ms or transaction_timeout_ms(self._size)
        async with reached_cluster(self._options.client) as cluster:
            producer = TransactionalProducer(
                cluster, self._identity.transactional_id, transaction_timeout_ms=timeout_ms
            )
            # From here on any older driver of this query is fenced, and what it left open is decided.
            await self._init(producer, timeout_ms)
            if await self._is_written(cluster):
                return False
            self._reader.check_complete()
            try:
                batches = self._reader.by_target()
                for target, letters in (await self._dead_letters(cluster)).items():
                    # Rows may go there too, where a query names the topic of dead letters for its own.
                    batches[target] = chain(batches.get(target, ()), letters)
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
        log.info("batch %d was written before", written)
        return True

    async def _dead_letters(self, cluster: Cluster) -> dict[TopicPartition, Iterator[bytearray]]:
        topic = self._options.dead_letter_topic
        if self._letters is None or topic is None:
            return {}
        metadata = await cluster.retrying(lambda: cluster.metadata([topic]))
        return dict(self._letters.by_target(topic, len(metadata.topic(topic).partitions)))

    async def _mark(self, producer: TransactionalProducer, targets: Mapping[TopicPartition, object]) -> None:
        """Every topic of the batch gets the mark: with a deleted topic its committed offsets go too."""
        if isinstance(self._identity, BatchIdentity):
            marks = {TopicPartition(target.topic, 0): self._identity.batch_id for target in targets}
            await producer.commit_offsets(self._identity.marker_group, marks)


async def last_written_batch(cluster: Cluster, marker_group: str) -> int:
    """The highest batch that a query's sink has committed; -1 when there is none."""
    offsets = GroupOffsets(cluster, Coordinators(cluster))
    committed = await offsets.fetch(marker_group, require_stable=True)
    return max((mark.offset for mark in committed.values()), default=_NO_BATCH)


def transaction_timeout_ms(size: int) -> int:
    """How long a transaction of so many bytes may take: a minute, and more for much data."""
    return min(max(_TIMEOUT_MIN_MS, size // _BYTES_PER_MS), _TIMEOUT_MAX_MS)


async def _abort(producer: TransactionalProducer, cause: Exception) -> None:
    """So that readers need not wait for the transaction to time out."""
    try:
        await producer.abort()
    except KafkaError as error:
        cause.add_note(f"nor could the transaction be aborted ({error}); the next attempt does that first")


def _explained(error: Exception) -> Exception:
    if isinstance(error, KafkaError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
        return KafkaError(
            error.code,
            "a batch is larger than max.message.bytes of its topic allows: lower option kafka.batch.size, "
            f"compress, or raise the topic's limit ({error.message})",
        )
    return error
