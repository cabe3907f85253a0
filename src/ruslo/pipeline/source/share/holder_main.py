"""The process that holds the locks of a query: ``python -m ruslo.pipeline.source.share.holder_main``.

Spark kills the process of a source's reader, so it cannot leave the group. This process outlives it for a
moment: its input ends, it gives the locked records back and leaves.
"""

from __future__ import annotations

import asyncio
import sys
from typing import BinaryIO

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import KafkaError, RusloError
from ruslo.pipeline.source.share.holder_messages import (
    Batch,
    Failed,
    Join,
    NextBatch,
    Release,
    read_message,
    write_message,
)
from ruslo.pipeline.source.share.lock_holder import LockHolder


async def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Respond to messages until the input ends."""
    join = await asyncio.to_thread(read_message, source)
    if not isinstance(join, Join):
        return
    try:
        holder = LockHolder(join.client, join.group_id, join.topics)
    except RusloError as error:
        write_message(sink, _failed(error))
        return
    holder.expect(join.unaccepted)
    # Only a batch that the reader got may be rejected: no task has seen other locked records.
    at_end = AcknowledgeType.RELEASE
    try:
        while (message := await asyncio.to_thread(read_message, source)) is not None:
            at_end = AcknowledgeType.RELEASE
            response: object
            try:
                response = await _handle(holder, message)
            except RusloError as error:
                response = _failed(error)
            write_message(sink, response)
            if isinstance(response, Batch) and response.records:
                at_end = join.on_failure
    except BrokenPipeError:
        pass  # The reader ended before it got the response.
    finally:
        await holder.stop(at_end)


async def _handle(holder: LockHolder, message: object) -> Batch | None:
    if isinstance(message, NextBatch):
        await holder.finish(message.processed)
        acquired = await holder.acquire(message.max_records, is_last=message.is_last)
        return Batch(acquired.records, dict(acquired.unaccepted))
    assert isinstance(message, Release), message
    await holder.release()
    return None


def _failed(error: RusloError) -> Failed:
    if isinstance(error, KafkaError):
        return Failed(int(error.code), error.message or "")
    return Failed(None, str(error))


if __name__ == "__main__":
    asyncio.run(serve(sys.stdin.buffer, sys.stdout.buffer))
