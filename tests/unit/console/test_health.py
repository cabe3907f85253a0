from __future__ import annotations

from ruslo.client.views.partition_health import PartitionAtRisk, Risk
from ruslo.client.wire.metadata import Node, PartitionInfo, TopicInfo
from ruslo.console.health import Severity, assess_health, unreachable
from ruslo.console.snapshot import Snapshot
from ruslo.model.ids import ZERO_UUID
from ruslo.model.topics import TopicPartition

INFO = PartitionInfo(0, 1, 0, (1, 2), (1,), ())


def snapshot(controller_id: int = 1) -> Snapshot:
    topics = {"t": TopicInfo("t", ZERO_UUID, False, (INFO,))}
    return Snapshot(0.0, {1: Node(1, "h", 1, None)}, controller_id, topics, {}, {}, {}, {})


def at_risk(*risks: Risk) -> list[PartitionAtRisk]:
    return [PartitionAtRisk(TopicPartition("t", at), risk, INFO, 1) for at, risk in enumerate(risks)]


def test_a_healthy_cluster() -> None:
    health = assess_health(snapshot(), [], [])
    assert health.severity is Severity.GOOD
    assert health.sentence.startswith("Healthy: 1 broker, 1 topic, every partition has a leader")


def test_the_worst_problem_is_reported() -> None:
    health = assess_health(snapshot(), at_risk(Risk.UNDER_REPLICATED, Risk.OFFLINE, Risk.AT_MIN_ISR), [])
    assert (health.severity, health.sentence[:21]) == (Severity.BAD, "1 partition offline: ")
    mild = assess_health(snapshot(), at_risk(Risk.UNDER_REPLICATED, Risk.UNDER_REPLICATED), [])
    assert (mild.severity, mild.sentence) == (
        Severity.WARNING,
        "2 partitions under-replicated: a replica is not in sync.",
    )


def test_fenced_brokers_and_missing_controllers() -> None:
    assert assess_health(snapshot(), [], [3]).sentence.startswith("Broker 3 is fenced")
    assert assess_health(snapshot(controller_id=-1), [], []).severity is Severity.BAD
    assert unreachable("Refused.").sentence == "The cluster is unreachable. Refused."


def test_lost_data_comes_first() -> None:
    lost = ["broker 1: t-0: the tail of the log is lost, offsets 411 to 749 (a segment is gone)"]
    health = assess_health(snapshot(), at_risk(Risk.OFFLINE), [], lost)
    assert (health.severity, health.sentence) == (Severity.BAD, "Records are lost in 1 offset range.")
    assert health.lost_data == lost
