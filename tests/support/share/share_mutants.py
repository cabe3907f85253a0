"""Mutants: bugs that are injected into the delivery to share groups, which the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.manager import SharePartitionManager
from ruslo.broker.share_partitions.state_writer import StateWriter
from ruslo.machines.share_partition.acquisition import Acquisition
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.values import ShareSettings, StateBatch


class ShareMutant(NamedTuple):
    inject: Callable[[], None]
    breaks: str
    """The invariant, or a part of its name."""


def _responds_before_the_write() -> None:
    """The response to an acknowledgement does not wait until it is persisted."""
    real = StateWriter.submit

    def submit(self: StateWriter, led: LedSharePartition, write: object, written: object = None) -> None:
        real(self, led, write, None)  # type: ignore[arg-type]
        if written is not None:
            written.set_result(None)  # type: ignore[attr-defined]

    StateWriter.submit = submit  # type: ignore[method-assign]


def _forgets_the_state() -> None:
    """A new leader loads the start offset without the states of records after it."""
    real = SharePartition.__init__

    def init(self: SharePartition, settings: ShareSettings, start_offset: int, batches: object = ()) -> None:
        real(self, settings, start_offset)

    SharePartition.__init__ = init  # type: ignore[method-assign]


def _locks_never_expire() -> None:
    SharePartitionManager._expire_locks = lambda self: None  # type: ignore[method-assign]
    SharePartition.release = lambda self, member, now_ms: None  # type: ignore[method-assign]


def _counts_are_not_limited() -> None:
    SharePartition._limited = lambda self, at, state: state  # type: ignore[method-assign]
    Acquisition._attempts_left = lambda self, delivery_count: 9  # type: ignore[method-assign]


def _starts_before_the_state() -> None:
    """A new leader goes back a few records."""
    real = SharePartition.__init__

    def init(
        self: SharePartition, settings: ShareSettings, start_offset: int, batches: Sequence[StateBatch] = ()
    ) -> None:
        real(self, settings, max(start_offset - 3, 0), batches)

    SharePartition.__init__ = init  # type: ignore[method-assign]


MUTANTS = {
    "counts-are-not-limited": ShareMutant(_counts_are_not_limited, "above the limit"),
    "starts-before-the-state": ShareMutant(_starts_before_the_state, "never decreases"),
    "responds-before-the-write": ShareMutant(_responds_before_the_write, "never delivered again"),
    "forgets-the-state": ShareMutant(_forgets_the_state, "never delivered again"),
    "locks-never-expire": ShareMutant(_locks_never_expire, "progress"),
}
