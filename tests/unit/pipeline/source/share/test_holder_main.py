from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.errors import RusloError
from ruslo.model.ids import random_uuid
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.source.share import holder_main
from ruslo.pipeline.source.share.holder_messages import Join, NextBatch, Release, write_message
from ruslo.pipeline.source.share.lock_holder import AcquiredRecords

RELEASE, REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT
JOIN = Join(ClientProperties("127.0.0.1:1"), "workers", ("orders",), REJECT, {})
PARTITION = SharePartitionId("orders", random_uuid(), 0)
NEXT = NextBatch({}, None, False)


class Holder:
    """Notes how it ends; the group has ``batches``, then fails."""

    def __init__(self, batches: int, *, has_records: bool) -> None:
        self._left = batches
        self._has_records = has_records
        self.stopped: AcknowledgeType | None = None

    def __call__(self, *_join: object) -> Holder:
        return self

    def expect(self, _processed: object) -> None: ...

    async def finish(self, _processed: object) -> None: ...

    async def release(self) -> None: ...

    async def acquire(self, _max_records: int | None, *, is_last: bool) -> AcquiredRecords:
        self._left -= 1
        if self._left < 0:
            raise RusloError("no leader")
        return AcquiredRecords({PARTITION: (AcquiredRange(0, 9, 1),)} if self._has_records else {}, {})

    async def stop(self, on_unfinished: AcknowledgeType) -> None:
        self.stopped = on_unfinished


class ClosedPipe(io.BytesIO):
    def write(self, _data: Any) -> int:
        raise BrokenPipeError


async def end_of(
    monkeypatch: pytest.MonkeyPatch,
    messages: Iterable[object],
    sink: io.BytesIO,
    batches: int = 2,
    *,
    has_records: bool = True,
) -> AcknowledgeType | None:
    holder, source = Holder(batches, has_records=has_records), io.BytesIO()
    monkeypatch.setattr(holder_main, "LockHolder", holder)
    for message in (JOIN, *messages):
        write_message(source, message)
    source.seek(0)
    await holder_main.serve(source, sink)
    return holder.stopped


async def test_the_batch_that_the_reader_got_is_rejected_if_the_query_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await end_of(monkeypatch, [NEXT], io.BytesIO()) is REJECT


@pytest.mark.parametrize(
    ("messages", "batches"),
    [([], 0), ([NEXT, Release()], 1), ([NEXT, NEXT], 1)],
    ids=["none", "given back", "failed"],
)
async def test_records_that_are_in_no_batch_of_the_reader_are_released(
    monkeypatch: pytest.MonkeyPatch, messages: list[object], batches: int
) -> None:
    assert await end_of(monkeypatch, messages, io.BytesIO(), batches) is RELEASE


async def test_nothing_is_rejected_after_an_empty_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await end_of(monkeypatch, [NEXT, NEXT], io.BytesIO(), has_records=False) is RELEASE


async def test_a_batch_that_the_reader_did_not_wait_for_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await end_of(monkeypatch, [NEXT], ClosedPipe()) is RELEASE
