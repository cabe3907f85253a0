"""delivery=at_least_once: each task sends what it has encoded; a repeated task sends it again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ruslo.client.wire.idempotent import IdempotentSender
from ruslo.client.wire.transactional import new_producer_id
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.client_properties import ClientProperties, reachable_cluster

if TYPE_CHECKING:
    from ruslo.pipeline.sink.batch_encoder import EncodedBatch

_PENDING_BYTES_MAX = 8 * 1024 * 1024


def send_directly(client: ClientProperties, batches: Iterable[EncodedBatch]) -> int:
    """Send with an idempotent producer; returns the number of records, all of them acknowledged."""
    records = 0
    outbox = _Outbox(client)
    with asyncio.Runner() as runner:
        try:
            # Rows are read from Spark and encoded between the requests, outside the event loop.
            for batch in batches:
                records += batch.record_count
                if outbox.add(batch):
                    runner.run(outbox.flush())
            runner.run(outbox.flush())
        finally:
            runner.run(outbox.close())
    return records


class _Outbox:
    def __init__(self, client: ClientProperties) -> None:
        self._client = client
        self._opened = AsyncExitStack()
        self._sender: IdempotentSender | None = None
        self._pending: dict[TopicPartition, list[bytearray]] = {}
        self._pending_bytes = 0

    def add(self, batch: EncodedBatch) -> bool:
        """Returns whether the outbox should be flushed."""
        self._pending.setdefault(batch.target, []).append(batch.records)
        self._pending_bytes += len(batch.records)
        return self._pending_bytes >= _PENDING_BYTES_MAX

    async def flush(self) -> None:
        if not self._pending:
            return
        if self._sender is None:
            cluster = await self._opened.enter_async_context(reachable_cluster(self._client))
            self._sender = IdempotentSender(cluster, await new_producer_id(cluster))
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        await self._sender.send(pending)

    async def close(self) -> None:
        await self._opened.aclose()
