from __future__ import annotations

from ruslo.client.views.partition_health import PartitionAtRisk, Risk
from ruslo.client.wire.metadata import Node, PartitionInfo, TopicInfo
from ruslo.console.health import Mood, judge, unreachable
from ruslo.console.snapshot import Snapshot
from ruslo.model.ids import ZERO_UUID
from ruslo.model.topics import TopicPartition

INFO = PartitionInfo(0, 1, 0, (1, 2), (1,), ())


def snapshot(controller_id: int = 1) -> Snapshot:
    topics = {"t": TopicInfo("t", ZERO_UUID, False, (INFO,))}
    return Snapshot(0.0, {1: Node(1, "h", 1, None)}, controller_id, topics, {}, {}, {}, {})


def at_risk(*risks: Risk) -> list[PartitionAtRisk]:
    return [PartitionAtRisk(TopicPartition("t", at), risk, INFO, 1) for at, risk in enumerate(risks)]


def test_all_is_well() -> None:
    health = judge(snapshot(), [], [])
    assert health.mood is Mood.GOOD
    assert health.sentence.startswith("All is well: 1 broker, 1 topic, every partition has a leader")


def test_the_worst_is_told() -> None:
    health = judge(snapshot(), at_risk(Risk.UNDER_REPLICATED, Risk.OFFLINE, Risk.AT_MIN_ISR), [])
    assert (health.mood, health.sentence[:26]) == (Mood.BAD, "Nobody leads 1 partition: ")
    mild = judge(snapshot(), at_risk(Risk.UNDER_REPLICATED, Risk.UNDER_REPLICATED), [])
    assert (mild.mood, mild.sentence) == (Mood.WARNING, "2 partitions have a replica that is not in sync.")


def test_brokers_and_controllers_that_are_missed() -> None:
    assert judge(snapshot(), [], [3]).sentence.startswith("Broker 3 is fenced")
    assert judge(snapshot(controller_id=-1), [], []).mood is Mood.BAD
    assert unreachable("Refused.").sentence == "The cluster cannot be reached. Refused."


def test_lost_data_comes_first() -> None:
    lost = ["broker 1: t-0: the tail of the log is lost, offsets 411 to 749 (a segment is gone)"]
    health = judge(snapshot(), at_risk(Risk.OFFLINE), [], lost)
    assert (health.mood, health.sentence) == (Mood.BAD, "Records are lost in 1 place of the logs.")
    assert health.lost_data == lost
