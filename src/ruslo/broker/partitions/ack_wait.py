"""Waiting until appends may be acknowledged (Kafka's DelayedProduce): the only way to do it in the broker.

Produce, transaction markers and both coordinators append first and acknowledge later. An append is decided
when the first of these happens:

- The high watermark (acks=all) or the leader's durable offset (acks=1) reaches its end.
- This broker stops leading the partition.
- The log directory fails.
- The timeout expires.

A batch may be decided before its request begins to wait: a transactional request, for example,
waits only after the coordinator has verified its last partition. Registering and checking are therefore one
step. ``Partition.register_ack`` either keeps the append or reports that it is decided already, so a wake-up
cannot be lost.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.errors import ErrorCode

if TYPE_CHECKING:
    from ruslo.broker.partitions.partition import Partition


class AckResult(enum.Enum):
    """The value is the error code of the response."""

    ACKED = ErrorCode.NONE
    TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
    """Appended, and possibly committed later."""
    NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
    """This broker stopped leading first: the offset may hold another record under the next leader."""
    STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Appended(NamedTuple):
    """A range of offsets that was appended to a partition, and that callers can wait for."""

    partition: Partition
    base_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses LogAppendTime (or the batch was a duplicate)."""
    end_offset: int
    leader_epoch: int
    """The epoch in which it was appended."""
    committed: bool
    """The high watermark had reached the end offset when the append returned."""

    def is_acked(self, acks_all: bool = True) -> bool:
        return self.committed or self.partition.is_acked(self.end_offset, acks_all)

    def when_committed(self, timeout_ms: int, complete: Callable[[AckResult], None]) -> None:
        """Call ``complete`` once with the result of acks=all, possibly before this returns."""
        AckWait((self,), timeout_ms, lambda results: complete(results[0]))


class AckWait:
    """One request's wait for all its appends.

    ``complete`` gets one result for each of ``appends``, in their order. It is called once; before the
    constructor returns, if every append is decided already. Without ``acks_all`` the leader's own durable
    copy is enough (acks=1).
    """

    __slots__ = ("_acks_all", "_appends", "_complete", "_outstanding", "_timer")

    def __init__(
        self,
        appends: Sequence[Appended],
        timeout_ms: int,
        complete: Callable[[list[AckResult]], None],
        acks_all: bool = True,
    ) -> None:
        self._appends = appends
        self._acks_all = acks_all
        self._complete: Callable[[list[AckResult]], None] | None = complete
        self._outstanding = sum(append.partition.register_ack(append, acks_all, self) for append in appends)
        self._timer: asyncio.TimerHandle | None = None
        if not self._outstanding:
            self._finish()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._finish)

    def on_decided(self) -> None:
        """One of the registered appends is decided."""
        self._outstanding -= 1
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        complete, self._complete = self._complete, None
        if complete is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        complete(
            [
                append.partition.ack_result(append, self._acks_all) or AckResult.TIMED_OUT
                for append in self._appends
            ]
        )


@dataclass(slots=True, eq=False)
class AckQueue:
    """Waits by the offset that one watermark of a partition has to reach, in the order of these offsets.

    Requests do not begin to wait in the order of their appends, so the queue sorts them.
    """

    waits: list[tuple[int, int, AckWait]] = field(default_factory=list)
    """A heap of end offset, sequence number and wait."""
    _registered: int = 0

    @property
    def first(self) -> float:
        """The lowest offset that is waited for."""
        return self.waits[0][0] if self.waits else math.inf

    def add(self, end_offset: int, wait: AckWait) -> None:
        self._registered += 1
        heapq.heappush(self.waits, (end_offset, self._registered, wait))

    def release_up_to(self, watermark: int) -> None:
        heap = self.waits
        while heap and heap[0][0] <= watermark:
            heapq.heappop(heap)[2].on_decided()

    def release_all(self) -> None:
        """This broker stops leading the partition."""
        released, self.waits = sorted(self.waits), []
        for _, _, wait in released:
            wait.on_decided()
