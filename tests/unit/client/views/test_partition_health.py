from __future__ import annotations

import pytest

from ruslo.client.views.partition_health import PartitionAtRisk, Risk, count_risks, risk_of
from ruslo.client.wire.metadata import PartitionInfo
from ruslo.model.topics import TopicPartition


def info(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo(0, leader, 0, replicas, isr, ())


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "risk"),
    [
        (1, (1, 2, 3), (1, 2, 3), 2, None),
        (1, (1,), (1,), 1, None),
        (1, (1,), (1,), 2, None),
        (1, (1, 2, 3), (1, 2), 1, Risk.UNDER_REPLICATED),
        (1, (1, 2, 3), (1, 2), 2, Risk.AT_MIN_ISR),
        (1, (1, 2, 3), (1,), 1, Risk.AT_MIN_ISR),
        (1, (1, 2, 3), (1,), 2, Risk.UNDER_MIN_ISR),
        (1, (1, 2), (1,), 5, Risk.UNDER_MIN_ISR),
        (-1, (1, 2), (1,), 1, Risk.OFFLINE),
        (-1, (1,), (), 1, Risk.OFFLINE),
    ],
)
def test_risk(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], min_isr: int, risk: Risk | None
) -> None:
    assert risk_of(info(leader, replicas, isr), min_isr) is risk


def test_each_partition_counts_once_and_the_worst_risk_is_first() -> None:
    found = [
        PartitionAtRisk(TopicPartition("t", number), risk, info(1, (1, 2), (1,)), 1)
        for number, risk in enumerate([Risk.OFFLINE, Risk.AT_MIN_ISR, Risk.AT_MIN_ISR])
    ]
    assert count_risks(found) == {"offline": 1, "under-min-isr": 0, "at-min-isr": 2, "under-replicated": 0}
    assert next(iter(count_risks([]))) == "offline"
    assert found[0].missing == (2,)
