"""Random histories of a share-partition keep the invariants; mutants break them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ruslo.machines.share_partition import acquisition, partition
from ruslo.machines.share_partition.acquisition import Acquisition
from ruslo.machines.share_partition.key_order import KeyOrder
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.ranges import InFlightRanges
from ruslo.machines.share_partition.states import DELIVERED_STATES, RecordState
from tests.support.machines.share_partition_model import (
    COPIED_FIRST,
    DELIVERY_LIMIT,
    LOCKS_ARE_KNOWN,
    NOT_TOO_EARLY,
    NOTHING_LOST,
    ORDER_OF_KEYS,
    InvariantBrokenError,
    SharePartitionModel,
)

SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

Mutant = Callable[[pytest.MonkeyPatch], None]


def test_the_invariants_hold() -> None:
    run_state_machine_as_test(SharePartitionModel, settings=SETTINGS)


def failed_writes_are_not_reverted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record counts as acknowledged although that was never persisted."""
    real = SharePartition.on_written
    monkeypatch.setattr(
        SharePartition,
        "on_written",
        lambda self, write_id, persisted, now_ms: real(self, write_id, True, now_ms),
    )


def writes_are_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records whose acknowledgement is being persisted are acquired again."""
    monkeypatch.setattr(
        InFlightRanges, "is_available", lambda self, at: self.target[at] == RecordState.AVAILABLE
    )


def the_delivery_limit_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "_limited", lambda self, at, state: state)


def locks_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "_check_locks", lambda self, *_: None)


def the_start_offset_passes_released_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        InFlightRanges,
        "is_terminal",
        lambda self, at: self.state[at] not in (RecordState.ACQUIRED, RecordState.WAITING),
    )


def delivery_counts_do_not_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    real = partition._loaded

    def loaded(start_offset: int, batches: Any) -> InFlightRanges:
        return real(start_offset, [each._replace(delivery_count=0) for each in batches])

    monkeypatch.setattr(partition, "_loaded", loaded)


def every_range_is_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InFlightRanges, "is_available", lambda self, at: True)


def aborted_records_are_lost_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    real = acquisition.overlaps

    def overlaps(acquired: Any, others: Any) -> Any:
        return [each._replace(last=acquired[-1].last) for each in real(acquired, others)]

    monkeypatch.setattr(partition, "overlaps", overlaps)


def halves_are_rounded_up_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch near its limit is never delivered again."""
    monkeypatch.setattr(Acquisition, "_acquire_again", lambda self, group, max_records: None)


def keys_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next record of a key is delivered while the one before is in flight."""
    monkeypatch.setattr(KeyOrder, "add", lambda self, offset, key: True)


def queues_of_keys_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that waits for its key is never delivered."""
    monkeypatch.setattr(KeyOrder, "finish", lambda self, first, last: [])


def there_is_no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "_back_off", lambda self, released, now_ms: None)


def undeliverable_records_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start offset passes records before they are in the dead-letter topic."""
    monkeypatch.setattr(InFlightRanges, "is_terminal", lambda self, at: self.state[at] in DELIVERED_STATES)


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        (failed_writes_are_not_reverted, None),
        (writes_are_not_awaited, None),
        (the_delivery_limit_is_ignored, None),
        (locks_are_not_checked, LOCKS_ARE_KNOWN),
        (the_start_offset_passes_released_records, NOTHING_LOST),
        (delivery_counts_do_not_survive, DELIVERY_LIMIT),
        (every_range_is_acquired, None),
        (aborted_records_are_lost_with_their_neighbours, None),
        (halves_are_rounded_up_to_nothing, None),
        (keys_are_forgotten, ORDER_OF_KEYS),
        (queues_of_keys_end_early, None),
        (there_is_no_backoff, NOT_TOO_EARLY),
        (undeliverable_records_are_passed, COPIED_FIRST),
    ],
)
def test_mutants_are_caught(mutant: Mutant, broken: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(InvariantBrokenError) as caught:
        run_state_machine_as_test(
            SharePartitionModel, settings=settings(SETTINGS, max_examples=1_000, phases=[Phase.generate])
        )
    if broken is not None:
        assert broken in str(caught.value)
