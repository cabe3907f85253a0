from __future__ import annotations

import pytest

from ruslo.pipeline.sink.identity import BatchIdentity, JobIdentity
from ruslo.pipeline.sink.transaction import transaction_timeout_ms


@pytest.mark.parametrize(
    ("size", "timeout_ms"),
    [(0, 60_000), (10_000_000, 60_000), (120_000_000, 120_000), (100_000_000_000, 900_000)],
)
def test_large_transactions_get_more_time(size: int, timeout_ms: int) -> None:
    assert transaction_timeout_ms(size) == timeout_ms


def test_a_new_checkpoint_is_another_producer_and_another_marker() -> None:
    """It begins at batch 0 again, which must not be taken for a batch that was written."""
    one, other = BatchIdentity("sink", "checkpoint-1", 0), BatchIdentity("sink", "checkpoint-2", 0)
    assert one.transactional_id != other.transactional_id
    assert one.marker_group != other.marker_group
    assert one.query_folder != other.query_folder


def test_batches_of_a_query_share_all_but_the_folder() -> None:
    one, other = BatchIdentity("sink", "q", 1), BatchIdentity("sink", "q", 2)
    assert one.transactional_id == other.transactional_id
    assert one.marker_group == other.marker_group
    assert one.staging_folder != other.staging_folder


def test_jobs_have_nothing_in_common() -> None:
    one, other = JobIdentity("sink", "1"), JobIdentity("sink", "2")
    assert one.transactional_id != other.transactional_id
    assert one.staging_folder != other.staging_folder
