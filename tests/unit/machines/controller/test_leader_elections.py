"""Automatic preferred and unclean leader elections. The transcripts cover the requested ones."""

from __future__ import annotations

import pytest

from ruslo.machines.controller import leader_elections, machine
from ruslo.machines.controller.events import BrokerGone
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.controller.state import ControllerSettings, ControllerState
from ruslo.machines.controller.topic_image import RECOVERED, RECOVERING
from ruslo.machines.machine import TimerFired
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse
from tests.support.machines.controller_bench import FEATURES, MachineBench, registration
from tests.unit.machines.controller.requests import assign_topic

COUNT = 5


def bench_led_by_second(configs: dict[str, str] | None = None) -> MachineBench:
    """Five partitions on brokers 1 and 2: broker 1 is the preferred leader and in sync, broker 2 leads."""
    bench = MachineBench.started(2)
    assign_topic(bench, *[[1, 2]] * COUNT, configs=configs)
    image = bench.image.topics
    for index in range(COUNT):
        change = PartitionChangeRecord(topic_id=image.by_name["t"].id, partition_id=index, leader=2)
        bench.machine.replay(change, len(bench.log))
        bench.log.append((change, 2))
    return bench


def leaders(bench: MachineBench) -> list[int]:
    return [partition.leader for partition in bench.image.topics.by_name["t"].partitions]


def keep_alive_until_due(bench: MachineBench) -> None:
    for broker_id in (1, 2):
        bench.now_ms = 299_000
        bench.heartbeat(broker_id)
    bench.now_ms = 300_000


def test_election_rounds_are_limited_and_follow_each_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.MAX_ELECTIONS_PER_ROUND == 1000
    monkeypatch.setattr(machine, "MAX_ELECTIONS_PER_ROUND", 2)
    bench = bench_led_by_second()
    keep_alive_until_due(bench)
    rounds = []
    while (deadline_ms := bench.machine.deadline_ms()) is not None and deadline_ms <= bench.now_ms:
        rounds.append(len(bench.handle(TimerFired())))
    assert [size for size in rounds if size] == [2, 2, 1]
    assert leaders(bench) == [1] * COUNT


def test_no_automatic_elections_without_auto_leader_rebalance() -> None:
    bench = bench_led_by_second()
    settings = ControllerSettings(node_id=1, cluster_id="x", auto_leader_rebalance=False)
    state = ControllerState(
        settings,
        bench.machine.state.rules,
        bench.machine.state.supported_features,
        bench.machine.state.random,
    )
    without_rebalance = ControllerMachine(state, [])
    without_rebalance.load(bench.image.copy())
    bench.machine = without_rebalance
    bench.activate()
    keep_alive_until_due(bench)
    bench.wait(0)
    assert leaders(bench) == [2] * COUNT
    assert without_rebalance.deadline_ms() is not None, "sessions still expire"


def test_fenced_or_lagging_replica_is_not_elected() -> None:
    bench = bench_led_by_second()
    epoch = bench.image.cluster.brokers[1].epoch
    assert bench.handle(BrokerGone(1, epoch + 1)) == [], "another incarnation is registered"
    bench.handle(BrokerGone(1, epoch))
    assert bench.handle(BrokerGone(1, epoch)) == [], "fenced already"
    bench.submit(registration(1, incarnation="b"))
    bench.heartbeat(1)
    assert list(leader_elections.preferred_leader_changes(bench.machine.state)) == []
    assert leaders(bench) == [2] * COUNT


def test_disconnected_broker_may_register_at_once() -> None:
    bench = MachineBench.started(2)
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.handle(BrokerGone(2, bench.image.cluster.brokers[2].epoch))
    assert bench.image.cluster.brokers[2].fenced
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.NONE


def test_inactive_machine_fences_no_broker() -> None:
    bench = MachineBench.started(2)
    bench.machine.deactivate()
    assert bench.handle(BrokerGone(2, bench.image.cluster.brokers[2].epoch)) == []
    assert not bench.image.cluster.brokers[2].fenced


def test_unclean_election_needs_the_topic_config() -> None:
    """This covers the machine's periodic check. The transcripts cover elections when a broker returns."""
    bench = bench_led_by_second()
    image = bench.image.topics
    for index in range(COUNT):
        leaderless = PartitionChangeRecord(
            topic_id=image.by_name["t"].id, partition_id=index, leader=-1, isr=[]
        )
        bench.machine.replay(leaderless, len(bench.log))
        bench.log.append((leaderless, 2))
    assert list(leader_elections.unclean_leader_changes(bench.machine.state)) == []
    unclean = bench_led_by_second({"unclean.leader.election.enable": "true"})
    leaderless = PartitionChangeRecord(
        topic_id=unclean.image.topics.by_name["t"].id, partition_id=3, leader=-1, isr=[]
    )
    unclean.machine.replay(leaderless, len(unclean.log))
    ((record, _),) = leader_elections.unclean_leader_changes(unclean.machine.state)
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.leader, record.isr, record.leader_recovery_state) == (3, 1, [1], 1)


def test_unknown_election_type_is_rejected() -> None:
    bench = bench_led_by_second()
    assert (
        bench.code(ElectLeadersRequest(election_type=2, topic_partitions=None)) is ErrorCode.INVALID_REQUEST
    )


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_eligible_replica_leads_again_after_elr_was_disabled(clean: bool) -> None:
    """No replica is in sync, so no other replica could ever lead."""
    bench = MachineBench.started(3)
    assign_topic(bench, [2, 3])
    bench.handle(BrokerGone(3, bench.image.cluster.brokers[3].epoch))
    epoch = bench.image.cluster.brokers[2].epoch
    bench.handle(BrokerGone(2, epoch))
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (2,))
    off = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
    assert bench.respond(UpdateFeaturesRequest(feature_updates=[off]), UpdateFeaturesResponse).error_code == 0
    bench.join(3, incarnation="b")
    assert leaders(bench) == [-1]
    bench.join(2, incarnation="b", previous=epoch if clean else -1)
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.isr, partition.recovery_state) == (
        2,
        (2,),
        RECOVERED if clean else RECOVERING,
    )
    assert (partition.elr, partition.last_known_elr) == ((), ())


def test_members_of_the_elr_are_not_last_known_once_there_is_a_leader() -> None:
    bench = MachineBench.started(3)
    assign_topic(bench, [1, 2, 3], configs={"min.insync.replicas": "3"})
    epochs = {broker_id: bench.image.cluster.brokers[broker_id].epoch for broker_id in (1, 2, 3)}
    for broker_id in (1, 2, 3):
        bench.handle(BrokerGone(broker_id, epochs[broker_id]))
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (1, 2, 3), (3,))
    bench.join(1, incarnation="b", previous=epochs[1])
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.elr, partition.last_known_elr) == (1, (2, 3), ())
    bench.join(3, incarnation="b")
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.elr, partition.last_known_elr) == ((2,), (3,)), "it may still have all records"


def test_last_leader_before_elr_leads_again_after_a_crash() -> None:
    bench = MachineBench.started(2, features={**FEATURES, "eligible.leader.replicas.version": 0})
    assign_topic(bench, [2])
    bench.handle(BrokerGone(2, bench.image.cluster.brokers[2].epoch))
    on = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
    assert bench.respond(UpdateFeaturesRequest(feature_updates=[on]), UpdateFeaturesResponse).error_code == 0
    assert leaders(bench) == [-1]
    bench.join(2, incarnation="b")
    (partition,) = bench.image.topics.by_name["t"].partitions
    assert (partition.leader, partition.recovery_state) == (2, RECOVERING)
