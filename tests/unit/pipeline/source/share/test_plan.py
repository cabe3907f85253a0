from __future__ import annotations

import json

import pytest

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.errors import ConfigError
from ruslo.model.ids import random_uuid
from ruslo.pipeline.source.share.plan import SharePlan, merged

PARTITION = SharePartitionId("orders", random_uuid(), 3)
PLAN = SharePlan(
    7, {PARTITION: (AcquiredRange(5, 9, 1), AcquiredRange(10, 10, 2))}, {PARTITION: ((1, 2), (4, 4))}
)


def test_a_plan_survives_the_checkpoint() -> None:
    stored = json.loads(json.dumps(PLAN.to_json()))
    assert SharePlan.from_json(stored) == PLAN
    assert json.dumps(SharePlan.from_json(stored).to_json()) == json.dumps(PLAN.to_json())


def test_two_batches_of_the_same_records_are_different_offsets() -> None:
    assert SharePlan(8, PLAN.acquired, PLAN.unaccepted).to_json() != PLAN.to_json()


def test_a_plan_has_the_offsets_of_its_ranges() -> None:
    assert PLAN.offsets() == {PARTITION: ((5, 10),)}


def test_the_checkpoint_of_a_query_without_share_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="offsets of another source"):
        SharePlan.from_json({"orders": {"id": "", "offsets": {"0": 23}}})


def test_adjacent_ranges_are_joined_if_they_were_delivered_as_often() -> None:
    ranges = [AcquiredRange(5, 6, 2), AcquiredRange(0, 1, 1), AcquiredRange(2, 4, 1), AcquiredRange(9, 9, 2)]
    assert merged(ranges) == (AcquiredRange(0, 4, 1), AcquiredRange(5, 6, 2), AcquiredRange(9, 9, 2))
